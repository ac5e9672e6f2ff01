import CRdkafka
import Foundation

/// How much topics hold, and how much of it groups have committed.
extension KafkaBroker {
    /// Waits until a topic holds so many records; returns how many it holds. A broker that does not answer yet is asked
    /// again.
    @discardableResult
    package func await(_ topic: String, holds count: Int, seconds: Double = ChildProcess.patience) throws -> Int {
        let client = try offsetClient(group: nil)
        defer { rd_kafka_destroy(client) }
        let deadline = Date(timeIntervalSinceNow: seconds)
        while true {
            let held = ends(of: topic, client)?.map(\.end).reduce(0, +)
            if let held, held >= count { return Int(held) }
            guard Date() < deadline else {
                throw Failure.refused(
                    "\(topic) holds \(held.map(String.init) ?? "an unknown number") of \(count) records")
            }
            usleep(50_000)
        }
    }

    /// Waits until the groups have committed all that their topics hold; throws when nothing moved for so long.
    package func awaitCommits(_ pairs: [(group: String, topic: String)], seconds: Double = ChildProcess.patience) throws
    {
        let clients = try Dictionary(
            Set(pairs.map(\.group)).map { ($0, try offsetClient(group: $0)) }, uniquingKeysWith: { first, _ in first })
        defer { clients.values.forEach { rd_kafka_destroy($0) } }
        var last: [Int64?] = []
        var deadline = Date(timeIntervalSinceNow: seconds)
        while true {
            let lags = pairs.map { lag(of: $0.topic, clients[$0.group]!) }
            if lags.allSatisfy({ $0 == 0 }) { return }
            // A retry record can make another retry record, so what a topic holds is movement too.
            let state = lags + pairs.map { ends(of: $0.topic, clients[$0.group]!)?.map(\.end).reduce(0, +) }
            if state != last {
                last = state
                deadline = Date(timeIntervalSinceNow: seconds)
            }
            guard Date() < deadline else {
                let texts = zip(pairs, lags).map { "\($0.group) on \($0.topic): \($1.map(String.init) ?? "unknown")" }
                throw Failure.refused("the lag did not move for \(seconds) s: \(texts.joined(separator: ", "))")
            }
            usleep(100_000)
        }
    }

    private func offsetClient(group: String?) throws -> OpaquePointer {
        let configuration = rd_kafka_conf_new()
        var text = [CChar](repeating: 0, count: 256)
        var properties = [("bootstrap.servers", bootstrapServers), ("log_level", "0")]
        if let group { properties.append(("group.id", group)) }
        for (name, value) in properties { rd_kafka_conf_set(configuration, name, value, &text, text.count) }
        guard let client = rd_kafka_new(RD_KAFKA_CONSUMER, configuration, &text, text.count) else {
            throw Failure.refused("no client")
        }
        return client
    }

    /// The first offset and the end of each partition; `nil`: not all of them are known now.
    private func ends(of topic: String, _ client: OpaquePointer) -> [(partition: Int32, start: Int64, end: Int64)]? {
        guard let handle = rd_kafka_topic_new(client, topic, nil) else { return nil }
        defer { rd_kafka_topic_destroy(handle) }
        var metadata: UnsafePointer<rd_kafka_metadata>?
        guard rd_kafka_metadata(client, 0, handle, &metadata, 5_000) == RD_KAFKA_RESP_ERR_NO_ERROR, let metadata else {
            return nil
        }
        defer { rd_kafka_metadata_destroy(metadata) }
        guard metadata.pointee.topic_cnt == 1, metadata.pointee.topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR else {
            return nil
        }
        var found: [(Int32, Int64, Int64)] = []
        for partition in 0..<metadata.pointee.topics[0].partition_cnt {
            var (low, high): (Int64, Int64) = (0, 0)
            guard
                rd_kafka_query_watermark_offsets(client, topic, partition, &low, &high, 5_000)
                    == RD_KAFKA_RESP_ERR_NO_ERROR
            else { return nil }
            found.append((partition, low, high))
        }
        return found
    }

    /// The commits are asked for first: the lag may be found too large, never too small.
    private func lag(of topic: String, _ client: OpaquePointer) -> Int64? {
        guard let before = ends(of: topic, client), let list = rd_kafka_topic_partition_list_new(0) else { return nil }
        defer { rd_kafka_topic_partition_list_destroy(list) }
        for each in before { rd_kafka_topic_partition_list_add(list, topic, each.partition) }
        guard rd_kafka_committed(client, list, 5_000) == RD_KAFKA_RESP_ERR_NO_ERROR,
            let after = ends(of: topic, client), after.count == before.count
        else { return nil }
        var lag: Int64 = 0
        for (index, each) in after.enumerated() {
            let committed = list.pointee.elems[index]
            guard committed.err == RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
            lag += each.end - (committed.offset >= 0 ? committed.offset : each.start)
        }
        return lag
    }
}

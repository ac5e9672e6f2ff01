import Kafka

/// Where reading a topic starts.
enum ReadingStart: Equatable {
    case beginning, end
    /// Records with this timestamp (milliseconds since the epoch) or a later one.
    case time(Int64)
}

/// A command cannot go on; one line that says what to do.
struct CommandFailure: Error {
    let line: String

    init(_ line: String) { self.line = line }
}

/// Reads all partitions of one topic without a group. One thread.
final class TopicReader {
    /// How long one question to the brokers may take.
    static let questionMs: Int32 = 10_000
    private static let firstQuestionMs: Int32 = 2_000
    /// It owns every partition and commits nothing, so it needs no group of its own.
    private static let groupID = "apns-worker-tail"

    private let consumer: Consumer
    private var queues: [PartitionQueue] = []
    /// What is left to read of what was there when reading began, by partition: the offset at which that ends.
    private var ends: [TopicPartition: Int64] = [:]
    private var troubles = Troubles()

    /// Throws when Kafka cannot be reached or the topic does not exist.
    init(
        _ cluster: ClusterSettings, topic: String, from start: ReadingStart, until deadline: Deadline = .never
    ) throws(CommandFailure) {
        do throws(KafkaError) {
            let topics = try Topics(cluster)
            let partitions = try Self.partitions(of: topic, topics, cluster, until: deadline)
            var starts: [TopicPartition: Int64] = [:]
            for partition in partitions {
                let range = try topics.range(of: partition, timeoutMs: Self.questionMs)
                starts[partition] = start == .beginning ? range.lowerBound : range.upperBound
                ends[partition] = range.upperBound
            }
            if case .time(let timestampMs) = start {
                let found = try topics.offsets(of: partitions, fromMs: timestampMs, timeoutMs: Self.questionMs)
                starts.merge(found) { $1 }
            }
            ends = ends.filter { starts[$0.key]! < $0.value }
            consumer = try Consumer(ConsumerSettings(cluster: cluster, role: .requests, groupID: Self.groupID))
            queues = try consumer.assign(partitions.map { PartitionStart($0, offset: starts[$0]) })
        } catch {
            throw CommandFailure("\(topic): \(error)")
        }
    }

    /// The record at an offset; `nil`: it is not there any more, or not yet, or cannot be read in time.
    static func record(at offset: Int64, of partition: TopicPartition, _ cluster: ClusterSettings) -> ReadRecord? {
        guard let topics = try? Topics(cluster), let known = try? partitions(of: partition.topic, topics, cluster),
            known.contains(partition), let range = try? topics.range(of: partition, timeoutMs: questionMs),
            range.contains(offset), let reader = try? TopicReader(partition, from: offset, cluster)
        else { return nil }
        let limit = Deadline(after: .seconds(5))
        var found: ReadRecord?
        while found == nil, !limit.hasPassed {
            let isRead: Void? = try? reader.read(timeoutMs: limit.leftMs(atMost: 200)) { record in
                found = record
                return false
            }
            guard isRead != nil else { break }
        }
        return found?.offset == offset ? found : nil
    }

    private init(_ partition: TopicPartition, from offset: Int64, _ cluster: ClusterSettings) throws(KafkaError) {
        consumer = try Consumer(ConsumerSettings(cluster: cluster, role: .requests, groupID: Self.groupID))
        queues = try consumer.assign([PartitionStart(partition, offset: offset)])
    }

    static func partitions(
        of topic: String, _ topics: Topics, _ cluster: ClusterSettings, until deadline: Deadline = .never
    ) throws(KafkaError) -> [TopicPartition] {
        let known = try all(topics, cluster, until: deadline)
        guard let found = known[topic], found.code == .none else {
            throw KafkaError(.unknownTopicOrPartition, "there is no such topic at \(cluster.bootstrapServers)")
        }
        return (0..<Int32(found.partitions)).map { TopicPartition(topic, $0) }
    }

    /// Says after two seconds that nobody answers yet.
    private static func all(
        _ topics: Topics, _ cluster: ClusterSettings, until deadline: Deadline
    ) throws(KafkaError) -> [String: TopicDescription] {
        if let known = try? topics.all(timeoutMs: max(1, deadline.leftMs(atMost: firstQuestionMs))) { return known }
        /// librdkafka says why once.
        var reason: String?
        func look() { for case .error(let error) in topics.events() { reason = error.text } }
        look()
        let place = "no broker of \(cluster.bootstrapServers) answers"
        let leftMs = deadline.leftMs(atMost: questionMs - firstQuestionMs)
        if leftMs > 0 {
            complain("\(place) yet\(reason.map { ": \($0)" } ?? ""); trying on for \((leftMs + 999) / 1_000) s")
        }
        do throws(KafkaError) {
            return try topics.all(timeoutMs: max(1, leftMs))
        } catch {
            look()
            throw KafkaError(error.code, "\(place): \(reason ?? error.text)")
        }
    }

    /// Whether all that was there when reading began has been read.
    var isCaughtUp: Bool { ends.isEmpty }

    /// Lends what there is to `body`, waiting at most `timeoutMs` when there is nothing, until it says false; throws
    /// when reading cannot go on.
    func read(timeoutMs: Int32, _ body: (ReadRecord) -> Bool) throws(CommandFailure) {
        var fatal: KafkaError?
        let count = readQueues(body)
        consumer.serve(timeoutMs: count == 0 ? timeoutMs : 0) { event in
            switch event {
            case .client(.fatal(let error)): fatal = error
            case .client(.error(let error)), .partitionFailed(_, let error), .batchFailed(_, _, let error):
                troubles.say(error)
            case .offsetReset(_, let text): complain(text)
            case .client(.log), .client(.statistics), .client(.delayed), .assigned, .revoked, .committed: break
            }
        }
        if let fatal { throw CommandFailure("Kafka: \(fatal)") }
    }

    private func readQueues(_ body: (ReadRecord) -> Bool) -> Int {
        var count = 0
        var isWanted = true
        for queue in queues where isWanted {
            count += queue.read(max: 1_000) { message in
                guard isWanted else { return false }
                let record = ReadRecord(message, of: queue.partition)
                isWanted = body(record)
                if let end = ends[queue.partition], record.offset + 1 >= end { ends[queue.partition] = nil }
                return true
            }
        }
        return count
    }
}

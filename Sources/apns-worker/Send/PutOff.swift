import Configuration
import JSON
import Kafka
import Observability
import PushRecords

/// The last retry record of a request that has no result yet.
struct PutOff {
    var topic: String
    /// Apple's reason for the retry, the worker's reason if the request was not sent, or empty.
    var reason: String
    /// The due time of the retry record, in milliseconds since the epoch.
    var dueMs: Int64

    /// Whether the request only waits for its `push-not-before`.
    var isScheduled: Bool { reason == RetryOrder.scheduled.description }

    var text: String {
        let due = Timestamp(wallMs: dueMs).text
        if isScheduled {
            return "the request waits in \(topic) for its push-not-before, and a worker checks it again at \(due)"
        }
        let word = reason == RetryOrder.held.description ? "deferred, not sent" : oneLine(reason, limit: 64)
        return "the request waits in retry topic \(topic)\(word.isEmpty ? "" : " (\(word))") until \(due)"
    }

    func json(of request: DeliveryResult.Request, dueMs: Int64) -> String {
        jsonObject { json in
            json.member("not_before_ms", dueMs)
            json.member("retry_topic", topic)
            json.member("request") { json in
                json.member("topic", request.topic)
                json.member("partition", Int64(request.partition))
                json.member("offset", request.offset)
                json.member("index", Int64(request.index))
            }
        }
    }

    /// Finds the last retry record of a request. Returns in `unread` a line for each retry topic that cannot be read.
    static func find(
        _ request: DeliveryResult.Request, sentMs: Int64, _ configuration: WorkerConfiguration,
        _ cluster: ClusterSettings
    ) -> (place: PutOff?, unread: [String]) {
        var last: PutOff?
        var unread: [String] = []
        for tier in configuration.retry.tiers {
            do {
                let limit = Deadline(after: .seconds(3))
                let reader = try TopicReader(cluster, topic: tier.topic, BrokerWait(cluster, until: limit))
                // The search starts a minute before the request was sent, because the clocks of brokers and of this
                // machine may differ.
                try reader.start(at: .time(max(0, sentMs - 60_000)))
                while !reader.isCaughtUp, !limit.hasPassed {
                    try reader.read(timeoutMs: limit.leftMs(atMost: 200)) { _, message in
                        var headers: [String: String] = [:]
                        message.forEachHeader {
                            headers[String(decoding: $0, as: UTF8.self)] = String(decoding: $1, as: UTF8.self)
                        }
                        let dueMs = headers["push-retry-due-ms"].flatMap { Int64($0) } ?? 0
                        if headers["push-retry-request"] == request.description, dueMs >= last?.dueMs ?? 0 {
                            last = PutOff(topic: tier.topic, reason: headers["push-retry-reason"] ?? "", dueMs: dueMs)
                        }
                        return true
                    }
                }
            } catch {
                unread.append("a retry topic cannot be read: \(error)")
            }
        }
        return (last, unread)
    }
}

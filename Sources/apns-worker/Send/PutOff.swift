import Configuration
import Kafka
import Observability
import PushRecords

/// Where a worker put off what has no result yet.
struct PutOff {
    var topic: String
    /// Apple's word, or ours for what was not sent.
    var reason: String
    /// When it is looked at again.
    var dueMs: Int64

    var text: String {
        let due = Timestamp(wallMs: dueMs).text
        if isScheduled { return "it waits in \(topic) for its push-not-before, and is looked at again at \(due)" }
        // The cause of what is held is the worker's to tell.
        let word = reason == RetryOrder.held.description ? "held: it was not sent" : printable(reason, limit: 64)
        return "a worker put it off to \(topic)\(word.isEmpty ? "" : " (\(word))"), to be sent again at \(due)"
    }

    /// Whether it only waits for when it is to be sent.
    var isScheduled: Bool { reason == RetryOrder.scheduled.description }

    /// The last retry record of a request; `nil`: there is none, or nobody tells. `unread` has the tiers that cannot be
    /// read, a line each.
    static func find(
        _ request: DeliveryResult.Request, sentMs: Int64, _ configuration: WorkerConfiguration,
        _ cluster: ClusterSettings
    ) -> (place: PutOff?, unread: [String]) {
        let place = request.description
        var last: PutOff?
        var unread: [String] = []
        for tier in configuration.retry.tiers {
            // A minute earlier: the brokers' clocks, by which records are found, are not ours.
            do throws(CommandFailure) {
                let limit = Deadline(after: .seconds(3))
                let reader = try TopicReader(cluster, topic: tier.topic, BrokerWait(cluster, until: limit))
                try reader.start(at: .time(max(0, sentMs - 60_000)))
                while !reader.isCaughtUp, !limit.hasPassed {
                    try reader.read(timeoutMs: limit.leftMs(atMost: 200)) { _, message in
                        var headers: [String: String] = [:]
                        message.forEachHeader {
                            headers[String(decoding: $0, as: UTF8.self)] = String(decoding: $1, as: UTF8.self)
                        }
                        let dueMs = headers["push-retry-due-ms"].flatMap { Int64($0) } ?? 0
                        if headers["push-retry-request"] == place, dueMs >= last?.dueMs ?? 0 {
                            last = PutOff(topic: tier.topic, reason: headers["push-retry-reason"] ?? "", dueMs: dueMs)
                        }
                        return true
                    }
                }
            } catch {
                unread.append("apns-worker send: whether it was put off there is not known: \(error)")
            }
        }
        return (last, unread)
    }
}

import Configuration
import JSON
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

    /// The last retry record of a request, if one was found. `unread` has a line for each tier that cannot be read.
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

/// A request that is to be sent later than anybody waits for: followed until a worker has put it off.
struct ScheduledRequest {
    let request: DeliveryResult.Request
    /// Of its results.
    let key: [UInt8]?
    let dueMs: Int64
    let sentMs: Int64
    let configuration: WorkerConfiguration
    let cluster: ClusterSettings

    /// Prints its result, or where it waits. What is wrong with it is known at once.
    func follow(
        _ results: TopicReader, _ options: SendOptions, until deadline: Deadline
    ) throws(CommandFailure) -> ExitCode {
        let due = Timestamp(wallMs: dueMs).text
        var unread: [String] = []
        repeat {
            if let value = try results.result(of: request, key: key, until: Deadline(after: .seconds(1))) {
                return try report(value, configuration, options.format)
            }
            let found = PutOff.find(request, sentMs: sentMs, configuration, cluster)
            unread = found.unread
            guard let place = found.place else { continue }
            guard place.isScheduled else {
                complain(
                    "apns-worker send: \(place.text); its result will come: \(resultCommand(of: request, options))")
                return .failed
            }
            switch options.format {
            case .text:
                say(
                    "\(request) waits in \(place.topic), to be sent at \(due); its result: \(resultCommand(of: request, options))\n"
                )
            case .json:
                say(json(waitingIn: place.topic) + "\n")
            }
            return .fine
        } while !deadline.hasPassed
        complain(
            "apns-worker send: no worker has taken \(request) within \(options.deadline.components.seconds) s, which is to "
                + "be sent at \(due): is one running? Its result may still come: \(resultCommand(of: request, options))"
        )
        for line in unread { complain(line) }
        for line in WorkerPage.lines(of: configuration) { complain("apns-worker send: \(line)") }
        return .failed
    }

    private func json(waitingIn topic: String) -> String {
        var json = JSONWriter()
        json.beginObject()
        json.member("not_before_ms", dueMs)
        json.member("retry_topic", topic)
        json.member("request") { json in
            json.member("topic", request.topic)
            json.member("partition", Int64(request.partition))
            json.member("offset", request.offset)
            json.member("index", Int64(request.index))
        }
        json.endObject()
        return json.text
    }
}

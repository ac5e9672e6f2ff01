import Configuration
import JSON
import Kafka
import Observability
import PushRecords

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

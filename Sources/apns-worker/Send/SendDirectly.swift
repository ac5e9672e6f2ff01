import Configuration
import JSON
import Observability
import PushRecords
import Worker

/// Sends the notification to APNs without Kafka, and prints the answer.
func sendDirectly(_ record: RequestRecord, _ configuration: WorkerConfiguration, _ options: SendOptions) -> ExitCode {
    let (seconds, attoseconds) = options.deadline.components
    do throws(DirectSend.Failure) {
        let answer = try DirectSend.run(
            record, with: configuration, timeoutNs: seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
        let token = options.token?.hex ?? ""
        say((options.format == .json ? answer.json(token) : answer.line(token)) + "\n")
        return answer.status == 200 ? .fine : .failed
    } catch {
        complain("apns-worker send: \(error)")
        return .failed
    }
}

extension DirectSend.Answer {
    /// For people.
    fileprivate func line(_ token: String) -> String {
        var words = [Timestamp(wallMs: answeredAtMs).text, status == 200 ? "accepted" : "refused", "\(status)"]
        if let reason { words.append(printable(reason.rawValue, limit: 100)) }
        words += [token, apnsTopic, "app=\(app)", "apns-id=\(apnsID)", "took=\(answeredAtMs - sentAtMs)ms"]
        if let unregisteredAtMs { words.append("since=\(Timestamp(wallMs: unregisteredAtMs).text)") }
        return words.joined(separator: " ")
    }

    /// With a result's names for what a result has too.
    fileprivate func json(_ token: String) -> String {
        var json = JSONWriter()
        json.beginObject()
        json.name("apns_id")
        json.value(apnsID.description)
        json.name("apns_unique_id")
        if let apnsUniqueID { json.value(apnsUniqueID) } else { json.null() }
        json.name("device_token")
        json.value(token)
        json.name("apns_topic")
        json.value(apnsTopic)
        json.name("app")
        json.value(app)
        json.name("environment")
        json.value(environment.text)
        json.name("status")
        json.value(status)
        json.name("reason")
        if let reason { json.value(reason.rawValue) } else { json.null() }
        json.name("unregistered_at_ms")
        if let unregisteredAtMs { json.value(unregisteredAtMs) } else { json.null() }
        json.name("sent_at_ms")
        json.value(sentAtMs)
        json.name("answered_at_ms")
        json.value(answeredAtMs)
        json.endObject()
        return json.text
    }
}

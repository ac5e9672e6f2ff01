import APNs
import Configuration
import JSON
import Observability
import PushRecords
import Worker

/// Sends the notification to APNs without Kafka, and prints the answer.
func sendDirectly(_ record: RequestRecord, _ configuration: WorkerConfiguration, _ options: SendOptions) -> ExitCode {
    let trace: TraceFile?
    switch openTrace(options.trace, command: "apns-worker send", onEnd: { complain("apns-worker send: \($0)") }) {
    case .failure(let exit): return exit.code
    case .success(let opened): trace = opened
    }
    let (seconds, attoseconds) = options.deadline.components
    do throws(DirectSend.Failure) {
        let answer = try DirectSend.run(
            record, with: configuration, timeoutNs: seconds * 1_000_000_000 + attoseconds / 1_000_000_000,
            trace: trace)
        let token = options.token?.hex ?? ""
        say((options.format == .json ? answer.json(token) : answer.line(token)) + "\n")
        if let advice = answer.advice, options.format == .text { complain("apns-worker send: \(advice)") }
        return answer.outcome == .accepted ? .fine : .failed
    } catch {
        complain("apns-worker send: \(error)")
        return .failed
    }
}

extension DirectSend.Answer {
    /// For people.
    fileprivate func line(_ token: String) -> String {
        var words = [Timestamp(wallMs: answeredAtMs).text, outcome.rawValue, "\(status)"]
        if let reason { words.append(printable(reason.rawValue, limit: 100)) }
        words += [token, apnsTopic, "app=\(app)", "apns-id=\(apnsID)", "took=\(answeredAtMs - sentAtMs)ms"]
        if let unregisteredAtMs { words.append("since=\(Timestamp(wallMs: unregisteredAtMs).text)") }
        return words.joined(separator: " ")
    }

    /// With a result's names for what a result has too; as there, what there is nothing to say of is left out.
    fileprivate func json(_ token: String) -> String {
        var json = JSONWriter()
        json.beginObject()
        json.member("apns_id", apnsID.description)
        if let apnsUniqueID { json.member("apns_unique_id", apnsUniqueID) }
        json.member("device_token", token)
        json.member("apns_topic", apnsTopic)
        json.member("app", app)
        json.member("environment", environment.text)
        json.member("outcome", outcome.rawValue)
        json.member("status", status)
        if let reason { json.member("reason", reason.rawValue) }
        if let advice { json.member("advice", advice) }
        if let unregisteredAtMs { json.member("unregistered_at_ms", unregisteredAtMs) }
        json.member("sent_at_ms", sentAtMs)
        json.member("answered_at_ms", answeredAtMs)
        json.endObject()
        return json.text
    }
}

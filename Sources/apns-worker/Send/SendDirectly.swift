import Configuration
import JSON
import PushRecords
import Worker

/// Sends the notification to APNs without Kafka, and prints the answer.
func sendDirectly(_ record: RequestRecord, _ configuration: WorkerConfiguration, _ options: SendOptions) -> ExitCode {
    if let failure = startKeyLog(options.keyLog, command: "apns-worker send") { return failure }
    let (seconds, attoseconds) = options.deadline.components
    do throws(DirectSend.Failure) {
        let answer = try DirectSend.run(
            record, with: configuration, timeoutNs: seconds * 1_000_000_000 + attoseconds / 1_000_000_000,
            onDelay: { complain("apns-worker send: \($0)") })
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
    private var attempts: Int { sentAtMs == nil ? 0 : 1 }

    /// For people, as of a result.
    fileprivate func line(_ token: String) -> String {
        var line = OutcomeLine(outcome, atMs: settledAtMs)
        line.status = status
        line.reason = reason
        line.target = token
        line.apnsTopic = apnsTopic
        line.app = app
        line.apnsID = apnsID
        line.apnsUniqueID = apnsUniqueID
        line.attempts = attempts
        line.requestedAtMs = requestedAtMs
        line.sentAtMs = sentAtMs
        line.unregisteredAtMs = unregisteredAtMs
        line.detail = detail
        return line.text
    }

    /// A result's members, but for `request`, which there is none; and the advice.
    fileprivate func json(_ token: String) -> String {
        var json = JSONWriter()
        json.beginObject()
        json.member("outcome", outcome.rawValue)
        if let status { json.member("status", status) }
        if let reason { json.member("reason", reason.rawValue) }
        if let detail { json.member("detail", detail) }
        if let unregisteredAtMs { json.member("unregistered_at_ms", unregisteredAtMs) }
        if let apnsID { json.member("apns_id", apnsID.description) }
        if let apnsUniqueID { json.member("apns_unique_id", apnsUniqueID) }
        json.member("device_token", token)
        if let apnsTopic { json.member("apns_topic", apnsTopic) }
        if let app { json.member("app", app) }
        if let environment { json.member("environment", environment.text) }
        json.member("attempts", attempts)
        json.member("in_doubt", 0)
        json.member("requested_at_ms", requestedAtMs)
        if let sentAtMs { json.member("sent_at_ms", sentAtMs) }
        json.member("settled_at_ms", settledAtMs)
        if let advice { json.member("advice", advice) }
        json.endObject()
        return json.text
    }
}

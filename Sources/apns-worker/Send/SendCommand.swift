import Configuration
import JSON
import Kafka
import PushRecords
import Worker

func send(_ arguments: [String]) throws -> ExitCode {
    let options = try parsed(SendOptions.table, arguments, SendOptions())
    let token = try options.checkedToken()
    let record = try options.completeNotification().payloadRecord(to: token)
    return options.isDirect
        ? try sendDirectly(record, token, options) : try sendViaKafka(record, token, options)
}

extension SendOptions {
    fileprivate func completeNotification() throws -> PushNotification<RawPayload> {
        let type = pushType ?? topic.flatMap { PushType(ofTopic: $0) } ?? .alert
        var notification = notification
        notification.payload = RawPayload(try payloadBytes(), pushType: type)
        notification.topic = topic.map { .exactly($0) }
        return notification
    }

    private func payloadBytes() throws -> [UInt8] {
        guard let payload else { return try AlertPayload(title: title, body: alert).json() }
        guard payload == "-" || payload.hasPrefix("@") else { return Array(payload.utf8) }
        do throws(FileError) {
            let limit = Deadline(after: deadline)
            var bytes = try readFile(payload == "-" ? "/dev/stdin" : String(payload.dropFirst())) {
                limit.awaitInput(of: $0)
            }
            // Editors and `echo` end a file with a newline, which is not part of the payload.
            while let last = bytes.last, last == 0x0A || last == 0x0D { bytes.removeLast() }
            return bytes
        } catch {
            throw CommandFailure("--payload: \(error)")
        }
    }
}

private func sendDirectly(_ record: RequestRecord, _ token: DeviceToken, _ options: SendOptions) throws -> ExitCode {
    let configuration = try options.flags.load(options.file, options.notification.environment)
    try startKeyLog(options.keyLog)
    let answer = try DirectSend.run(
        record, with: configuration, timeoutNs: options.deadline.nanoseconds,
        onDelay: { complain("apns-worker send: \($0)") })
    let (result, advice) = (answer.result, answer.advice)
    return result.show(
        options.format, line: result.line(about: token.hex, of: nil), json: result.json(token.hex, advice: advice),
        advice: advice)
}

extension DeliveryResult {
    /// Prints a form of the result, and the advice if the form does not contain it. Returns the command's exit code.
    func show(_ format: OutputFormat, line: String, json: String, advice: String?) -> ExitCode {
        say((format == .json ? json : line) + "\n")
        if format == .text, let advice { complain("apns-worker send: \(advice)") }
        return outcome == .accepted ? .fine : .failed
    }

    /// Returns the result as a JSON object, without the member `request` and with the advice as the last member.
    fileprivate func json(_ token: String, advice: String?) -> String {
        jsonObject { json in
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
            json.member("in_doubt", inDoubt)
            json.member("requested_at_ms", requestedAtMs)
            if let sentAtMs { json.member("sent_at_ms", sentAtMs) }
            json.member("settled_at_ms", settledAtMs)
            if let advice { json.member("advice", advice) }
        }
    }
}

import Observability
import PushRecords

extension DeliveryResult {
    /// Returns the outcome as one line of text. `target` is the device token or the channel id.
    func line(about target: String?, of request: DeliveryResult.Request?) -> String {
        var words = [Timestamp(wallMs: settledAtMs).text, padded(outcome.rawValue, to: 12)]
        if let status { words.append("\(status)") }
        if let reason { words.append(printable(reason.rawValue, limit: 100)) }
        words.append(printable(target ?? "-", limit: 200))
        words.append(printable(apnsTopic ?? "-", limit: 255))
        if let app { words.append("app=\(printable(app, limit: 100))") }
        if let request { words.append("request=\(request)") }
        if let apnsID { words.append("apns-id=\(apnsID)") }
        if let apnsUniqueID { words.append("apns-unique-id=\(printable(apnsUniqueID, limit: 100))") }
        if attempts != 1 { words.append("attempts=\(attempts)") }
        if inDoubt > 0 { words.append("in-doubt=\(inDoubt)") }
        if let sentAtMs {
            if RecordTime.checked(requestedAtMs) != RecordTime.unknown {
                words.append("took=\(RecordTime.age(of: requestedAtMs, nowMs: settledAtMs))ms")
            }
            words.append("sent=\(Timestamp(wallMs: sentAtMs).text)")
        }
        if let unregisteredAtMs { words.append("since=\(Timestamp(wallMs: unregisteredAtMs).text)") }
        if let detail { words.append("(\(printable(detail, limit: 300)))") }
        return words.joined(separator: " ")
    }

    var line: String { line(about: deviceToken ?? channelID, of: request) }
}

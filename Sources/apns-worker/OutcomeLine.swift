import Observability
import PushRecords

/// What became of a notification, as one line for people: a result, or what APNs answered to `send --direct`.
struct OutcomeLine {
    var outcome: Outcome
    /// When it was clear; milliseconds since the epoch, as all times here.
    var atMs: Int64
    var status: Int?
    var reason: Reason?
    /// The device token, or the channel id.
    var target: String?
    var apnsTopic: String?
    var app: String?
    var request: DeliveryResult.Request?
    var apnsID: NotificationUUID?
    var apnsUniqueID: String?
    var attempts = 1
    var inDoubt = 0
    var requestedAtMs: Int64 = 0
    var sentAtMs: Int64?
    var unregisteredAtMs: Int64?
    var detail: String?

    init(_ outcome: Outcome, atMs: Int64) {
        self.outcome = outcome
        self.atMs = atMs
    }

    var text: String {
        var words = [Timestamp(wallMs: atMs).text, padded(outcome.rawValue, to: 12)]
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
                words.append("took=\(RecordTime.age(of: requestedAtMs, nowMs: atMs))ms")
            }
            words.append("sent=\(Timestamp(wallMs: sentAtMs).text)")
        }
        if let unregisteredAtMs { words.append("since=\(Timestamp(wallMs: unregisteredAtMs).text)") }
        if let detail { words.append("(\(printable(detail, limit: 300)))") }
        return words.joined(separator: " ")
    }
}

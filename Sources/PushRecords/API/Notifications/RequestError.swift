/// Why a notification cannot be asked for: what the worker would have said of the same record, said before it is
/// produced.
///
/// ```swift
/// do {
///     try producer.send(notification.payloadRecord(to: token))
/// } catch where error.reason == .payloadTooLarge {
///     …
/// }
/// ```
public struct RequestError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The `reason` of the result that the worker would have published; `nil` where Apple has no word for it.
    public var reason: Reason?
    /// In words, for people; names the header or member that is at fault.
    public var detail: String

    /// `BadCollapseId: apns-collapse-id must be printable ASCII of 1 to 64 bytes`, or the detail alone.
    public var description: String { reason.map { "\($0.rawValue): \(detail)" } ?? detail }

    init(_ reason: ReasonCode, _ detail: String) {
        self.reason = reason.reason
        self.detail = detail
    }

    init(_ reason: ReasonCode, _ detail: borrowing Detail) {
        let subject = detail.subject.cut(Detail.subjectLimit)
        let text = detail.text.description
        self.init(reason, subject.count == 0 ? text : "\(text): \(String(decoding: subject, as: UTF8.self))")
    }
}

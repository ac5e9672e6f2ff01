/// The `push-retry-*` headers of a retry record, checked: counts of at most `RecordLimits.count`, times of
/// `RecordTime`, a place with an index that a request can have. Owns nothing.
package struct RetryFields {
    /// The original request.
    package var request: RequestPlace
    /// How many attempts were used up, this retry's cause included.
    package var attempt: Int32
    /// `RecordTime.unknown`: at once.
    package var dueMs: Int64
    /// The original record's timestamp; may be `RecordTime.unknown`.
    package var firstMs: Int64
    /// Why: a reason's text; lent, may be empty.
    package var reason: UnsafeRawBufferPointer
    /// Sends so far, over all workers, and how many of them are in doubt.
    package var sends: Int32
    package var inDoubt: Int32
    /// The app that called the token bad before it was sent to this one; lent, empty: none did.
    package var triedApp: UnsafeRawBufferPointer

    package init(
        request: RequestPlace, attempt: Int32, dueMs: Int64, firstMs: Int64, reason: UnsafeRawBufferPointer,
        sends: Int32, inDoubt: Int32,
        triedApp: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        self.request = request
        self.attempt = attempt
        self.dueMs = dueMs
        self.firstMs = firstMs
        self.reason = reason
        self.sends = sends
        self.inDoubt = inDoubt
        self.triedApp = triedApp
    }
}

extension RetryFields {
    /// `nil` when `push-retry-request`, `-attempt`, `-due-ms` or `-first-ms` is missing, any number is none, or no
    /// request can have such an index.
    init?(_ fields: borrowing FieldTable) {
        func count(_ name: HeaderName, or absent: Int32? = nil) -> Int32? {
            guard let value = fields[name] else { return absent }
            guard let number = HeaderCheck.unsigned(value) else { return nil }
            return Int32(min(number, Int64(RecordLimits.count)))
        }
        func time(_ name: HeaderName) -> Int64? {
            guard let value = fields[name] else { return nil }
            // A request without a timestamp has -1.
            let isNegative = value.first == UInt8(ascii: "-")
            let digits = isNegative ? value.part(1, value.count) : value
            guard let number = HeaderCheck.unsigned(digits) else { return nil }
            return isNegative ? RecordTime.unknown : RecordTime.checked(number)
        }
        guard let place = fields[.retryRequest], let request = RequestPlace(text: place),
            request.index < Int32(RequestParser.tokenLimit),
            let attempt = count(.retryAttempt), let dueMs = time(.retryDue), let firstMs = time(.retryFirst),
            let sends = count(.retrySends, or: 0), let inDoubt = count(.retryInDoubt, or: 0)
        else { return nil }
        self.init(
            request: request, attempt: attempt, dueMs: dueMs, firstMs: firstMs,
            reason: (fields[.retryReason] ?? .nothing).cutText(RecordLimits.reason), sends: sends, inDoubt: inDoubt,
            triedApp: (fields[.retryTried] ?? .nothing).cut(RecordLimits.app + 1))
    }
}

/// The `push-retry-*` headers of a retry record. Owns nothing.
package struct RetryFields {
    /// The original request.
    package var request: RequestPlace
    /// How many attempts were used up, this retry's cause included.
    package var attempt: Int32
    package var dueMs: Int64
    /// The original record's timestamp.
    package var firstMs: Int64
    /// Why: a reason's text; lent, may be empty.
    package var reason: UnsafeRawBufferPointer
    /// Sends so far, over all workers, and how many of them are in doubt.
    package var sends: Int32
    package var inDoubt: Int32

    package init(
        request: RequestPlace, attempt: Int32, dueMs: Int64, firstMs: Int64, reason: UnsafeRawBufferPointer,
        sends: Int32, inDoubt: Int32
    ) {
        self.request = request
        self.attempt = attempt
        self.dueMs = dueMs
        self.firstMs = firstMs
        self.reason = reason
        self.sends = sends
        self.inDoubt = inDoubt
    }
}

extension RetryFields {
    /// `nil` when `push-retry-request`, `-attempt`, `-due-ms` or `-first-ms` is missing, or any number is none.
    init?(_ fields: borrowing FieldTable) {
        func number(_ name: HeaderName, or absent: Int64? = nil) -> Int64? {
            guard let value = fields[name] else { return absent }
            return HeaderCheck.unsigned(value)
        }
        guard let place = fields[.retryRequest], let request = RequestPlace(text: place),
            let attempt = number(.retryAttempt).flatMap({ Int32(exactly: $0) }),
            let dueMs = number(.retryDue), let firstMs = number(.retryFirst),
            let sends = number(.retrySends, or: 0).flatMap({ Int32(exactly: $0) }),
            let inDoubt = number(.retryInDoubt, or: 0).flatMap({ Int32(exactly: $0) })
        else { return nil }
        self.init(
            request: request, attempt: attempt, dueMs: dueMs, firstMs: firstMs,
            reason: fields[.retryReason] ?? .nothing, sends: sends, inDoubt: inDoubt)
    }
}

/// A parsed record of a request or retry topic.
///
/// Plain data that owns nothing. Every range is lent from the record or from the parser's scratch: it is valid until
/// the record is given back or the parser parses again. Payload and token list aside, no text is longer than its limit
/// (`RecordLimits`), also in an invalid request.
package struct ParsedRequest {
    package enum Target: UInt8 {
        /// None can be read: the record is a dead letter.
        case none
        /// One device: `token`.
        case device
        /// A fan-out: `tokenList` and `tokenCount`.
        case devices
        /// A broadcast: `channelID`.
        case channel
    }

    package enum Form: UInt8 {
        case payload, envelope
    }

    package var target = Target.none
    package var form = Form.payload
    /// Set exactly when `target` is `.none`.
    package var deadLetter: DeadLetterReason?
    /// Whether a fault affects all of its notifications: each becomes `invalid` with `failureReason` and `detail`.
    package var isInvalid = false
    /// `.none` where Apple has no reason for the fault.
    package var failureReason = ReasonCode.none
    /// About the dead letter or the fault.
    package var detail = Detail.none

    /// As the producer wrote it: `DeviceToken.normalize` checks it and converts it to lower case. A text that is too
    /// long to be a token is cut one byte beyond the limit.
    package var token: UnsafeRawBufferPointer = .nothing
    /// The JSON list of the tokens, brackets included; every element is a string. Read it, or a copy, with a
    /// `TokenCursor`.
    package var tokenList: UnsafeRawBufferPointer = .nothing
    /// The number of notifications: 1 for a device or a channel, 0 for a dead letter.
    package var tokenCount = 0
    package var channelID: UnsafeRawBufferPointer = .nothing

    /// The bytes that go to Apple.
    package var payload: UnsafeRawBufferPointer = .nothing
    package var headers = NotificationHeaders()
    /// When to send it, in seconds since the epoch. 0 or a past time means at once.
    package var notBefore: UInt32 = 0
    /// The name of a configured app, or empty.
    package var app: UnsafeRawBufferPointer = .nothing
    package var environment: PushEnvironment?
    /// The record's key, cut at `RecordLimits.key` bytes, where results name it (`request.key`): without a base address
    /// if there is none or it is the token. The key of a fan-out is as it came, and the writer compares it with each
    /// token. A retry record has its request's key.
    package var key: UnsafeRawBufferPointer = .nothing
    /// Headers that are copied to results: `traceparent`, `tracestate` and the configured ones. At most
    /// `RecordLimits.copiedHeaders` with together `RecordLimits.copiedBytes` bytes; the rest is left out.
    package let copiedHeaders: UnsafeBufferPointer<RecordHeader>
    /// Set exactly for a record of a retry topic that is not a dead letter.
    package var retry: RetryFields?

    init(copiedHeaders: UnsafeBufferPointer<RecordHeader>) { self.copiedHeaders = copiedHeaders }
}

/// The kind of topic that a record comes from.
package enum RecordRole: UInt8 {
    /// A request topic: both forms, without `push-retry-*` headers.
    case request
    /// A retry topic: payload form only, whatever the value looks like. The `push-retry-*` headers are read.
    case retry
}

extension ParsedRequest {
    /// The dead letter of a record that is not parsed.
    package static func unread(_ reason: DeadLetterReason) -> Self {
        var request = Self(copiedHeaders: UnsafeBufferPointer(start: nil, count: 0))
        request.markDeadLetter(reason, Detail(reason.unreadDetail))
        return request
    }

    package mutating func markDeadLetter(_ reason: DeadLetterReason, _ detail: StaticString) {
        markDeadLetter(reason, Detail(detail))
    }

    mutating func markDeadLetter(_ reason: DeadLetterReason, _ detail: Detail) {
        target = .none
        token = .nothing
        tokenList = .nothing
        channelID = .nothing
        tokenCount = 0
        retry = nil
        deadLetter = reason
        self.detail = detail
    }

    /// Makes its notifications invalid. The first fault is the one that is reported.
    ///
    /// - Parameter reason: `.none` where Apple has no reason for it.
    @inline(never)
    mutating func fail(_ reason: ReasonCode, _ text: StaticString, _ subject: UnsafeRawBufferPointer = .nothing) {
        guard !isInvalid else { return }
        isInvalid = true
        failureReason = reason
        detail = Detail(text, subject.cutText(RecordLimits.detailSubject))
    }

    /// Makes its notifications invalid because of a header's value, and recognizes quotes around it.
    mutating func refuse(_ name: HeaderName, _ text: StaticString, _ value: UnsafeRawBufferPointer) {
        if ForeignForm.isQuoted(value) {
            fail(name.badValue, ForeignForm.quotedHeader, name.text.lentBytes)
        } else {
            fail(name.badValue, text, value)
        }
    }

    /// Keeps the record's key where results must name it; cuts it and the token.
    mutating func keepKey(_ key: UnsafeRawBufferPointer) {
        let isTarget =
            switch target {
            case .device: key.isSameToken(token)
            case .channel: key.isSameToken(channelID)
            case .devices, .none: false
            }
        if !isTarget { self.key = key.cutText(RecordLimits.key) }
        cutToken()
    }

    /// Cuts the token one byte beyond the limit, so that the rest of a longer text is no token.
    mutating func cutToken() { token = token.cut(RecordLimits.deviceToken + 1) }
}

extension UnsafeRawBufferPointer {
    /// Whether both are the same bytes, or hex digits that differ in case only.
    func isSameToken(_ other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        guard let one = baseAddress, let two = other.baseAddress else { return true }
        if one == two { return true }
        var index = 0
        while count &- index >= 8,
            (one + index).loadUnaligned(as: UInt64.self) == (two + index).loadUnaligned(as: UInt64.self)
        {
            index &+= 8
        }
        for index in index..<count {
            let a = one.load(fromByteOffset: index, as: UInt8.self)
            let b = two.load(fromByteOffset: index, as: UInt8.self)
            guard a == b || (a | 0x20 == b | 0x20 && Hex.value(a) != nil && Hex.value(b) != nil) else { return false }
        }
        return true
    }
}

/// What one record of a request or retry topic asks for.
///
/// Plain data that owns nothing. Every range is lent: it points into the record's key, value or headers, or into the
/// parser's scratch, so it is valid until the record is given back or the parser parses again, whichever comes first.
/// No text but payload and list of tokens is longer than its limit (`RecordLimits`), also where the request is invalid.
package struct ParsedRequest {
    package enum Target: UInt8 {
        /// No notification can be read: the record is a dead letter (`deadLetter` and `detail` say why).
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

    package var target: Target
    package var form: Form
    /// Set exactly when `target` is `.none`.
    package var deadLetter: DeadLetterReason?
    /// Whether something that all of its notifications share is wrong: each becomes `invalid` with `failureReason`
    /// and `detail`. Where Apple has no word for it the reason is `.none`.
    package var isInvalid: Bool
    package var failureReason: ReasonCode
    /// Of the dead letter, or of what is invalid.
    package var detail: Detail

    /// As the producer wrote it, not checked yet: `DeviceToken.normalize` checks and lower-cases it. Of one that is too
    /// long to be a token, one byte more than a token may have.
    package var token: UnsafeRawBufferPointer
    /// The JSON list of the tokens, brackets included; every element is a string. Read it, or a copy, with a
    /// `TokenCursor`.
    package var tokenList: UnsafeRawBufferPointer
    /// How many notifications: 1 for a device or a channel, 0 for a dead letter.
    package var tokenCount: Int
    package var channelID: UnsafeRawBufferPointer

    /// What goes to Apple, byte for byte.
    package var payload: UnsafeRawBufferPointer
    package var headers: NotificationHeaders
    /// When it is to be sent, in seconds since the epoch; 0: at once. What lies in the past is at once, too.
    package var notBefore: UInt32
    /// Name of an app of the configuration; empty: none was given.
    package var app: UnsafeRawBufferPointer
    package var environment: PushEnvironment?
    /// The record's key where results must name it (`request.key`): a `nil` base address when there is none, or it is
    /// the token itself. For a fan-out it is the key as it came, and the writer compares it with each token. Of a retry
    /// record: the original's key. Cut at `RecordLimits.key` bytes.
    package var key: UnsafeRawBufferPointer
    /// Headers that results carry on: `traceparent`, `tracestate` and the configured ones. At most
    /// `RecordLimits.copiedHeaders` with together `RecordLimits.copiedBytes` bytes; what is beyond is left out.
    package var copiedHeaders: UnsafeBufferPointer<RecordHeader>
    /// Set exactly for a record of a retry topic that is not a dead letter.
    package var retry: RetryFields?
}

/// Which topics a record comes from.
package enum RecordRole: UInt8 {
    /// A request topic: both forms; `push-retry-*` headers are ignored.
    case request
    /// A retry topic: payload form only, whatever the value looks like, and the `push-retry-*` headers are read.
    case retry
}

extension ParsedRequest {
    /// A request for which everything is still to be found out.
    init(copiedHeaders: UnsafeBufferPointer<RecordHeader>) {
        target = .none
        form = .payload
        deadLetter = nil
        isInvalid = false
        failureReason = .none
        detail = .none
        token = .nothing
        tokenList = .nothing
        tokenCount = 0
        channelID = .nothing
        payload = .nothing
        headers = NotificationHeaders()
        notBefore = 0
        app = .nothing
        environment = nil
        key = .nothing
        self.copiedHeaders = copiedHeaders
        retry = nil
    }

    /// Of a record that is not to be looked at.
    package static func unread(_ reason: DeadLetterReason) -> Self {
        var request = Self(copiedHeaders: UnsafeBufferPointer(start: nil, count: 0))
        request.bury(reason, Detail(reason.unreadDetail))
        return request
    }

    /// No notification can be read from the record.
    mutating func bury(_ reason: DeadLetterReason, _ detail: Detail) {
        target = .none
        token = .nothing
        channelID = .nothing
        tokenCount = 0
        deadLetter = reason
        self.detail = detail
    }

    /// Its notifications are invalid; the first fault found is the one that is reported.
    @inline(never)
    mutating func fail(_ fault: RequestFault) {
        guard !isInvalid else { return }
        isInvalid = true
        failureReason = fault.reason
        detail = fault.detail
    }

    /// Keeps the record's key where results must name it; cuts it and the token.
    mutating func keepKey(_ key: UnsafeRawBufferPointer) {
        switch target {
        case .none: break
        case .devices: self.key = key.cutText(RecordLimits.key)
        case .device: if !key.isSameToken(token) { self.key = key.cutText(RecordLimits.key) }
        case .channel: if !key.isSameToken(channelID) { self.key = key.cutText(RecordLimits.key) }
        }
        cutToken()
    }

    /// One byte more than a token may have stays, so that no token is left of something longer.
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

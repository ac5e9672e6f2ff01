import JSON

/// A parsed record of a request or retry topic.
///
/// A parsed request is plain data whose ranges are borrowed from the record or from the parser's scratch memory. The
/// ranges are valid until the record is released or the parser parses another record. Except for the payload and the
/// token list, every text has a maximum size (`RecordLimits`), even in an invalid request.
package struct ParsedRequest {
    package enum Target: UInt8 {
        /// No target, because the record is a dead letter.
        case none
        /// One device, in `token`.
        case device
        /// A fan-out to several devices, in `tokenList` and `tokenCount`.
        case devices
        /// A broadcast, in `channelID`.
        case channel
    }

    package enum Form: UInt8 {
        case payload, envelope
    }

    package var target = Target.none
    package var form = Form.payload
    /// The reason why the record is a dead letter. Set if and only if `target` is `.none`.
    package var deadLetter: DeadLetterReason?
    /// Whether an error makes all notifications of the record `invalid`, with `failureReason` and `detail`.
    package var isInvalid = false
    /// Apple's reason for the error, or `.none` if Apple has no such reason.
    package var failureReason = ReasonCode.none
    /// The explanation of the dead letter or the error.
    package var detail = Detail.none

    /// The device token as the producer wrote it. `DeviceToken.normalize` validates it and converts it to lower case.
    /// The parser truncates a token that is too long to one byte more than the limit, so that it remains invalid.
    package var token: UnsafeRawBufferPointer = .nothing
    /// The JSON list of tokens including its brackets. Every element is a string. Read it with a `TokenCursor`.
    package var tokenList: UnsafeRawBufferPointer = .nothing
    /// The number of notifications: 1 for a device or a channel, the number of tokens for a fan-out, 0 for a dead
    /// letter.
    package var tokenCount = 0
    package var channelID: UnsafeRawBufferPointer = .nothing

    /// The payload, which is sent to APNs unchanged.
    package var payload: UnsafeRawBufferPointer = .nothing
    package var headers = Headers()
    /// The earliest time to send the notification, in seconds since the epoch. With 0 or a past time, it can be sent
    /// now.
    package var notBefore: UInt32 = 0
    /// The name of the app, or empty if the request names none.
    package var app: UnsafeRawBufferPointer = .nothing
    package var environment: PushEnvironment?
    /// The record's key, for `request.key` of results, truncated at `RecordLimits.key` bytes. For a retry record, it is
    /// the key of the original request.
    ///
    /// The buffer has no base address if the record has no key, or if the key is the device token or channel id. A
    /// fan-out's key is always stored, because the writer of results compares it with each token.
    package var key: UnsafeRawBufferPointer = .nothing
    /// The headers to copy to results: `traceparent`, `tracestate`, `push-replay-of`, and those of
    /// `results.copy_headers`. Headers beyond `RecordLimits.copiedHeaders` or `RecordLimits.copiedBytes` are omitted.
    package let copiedHeaders: UnsafeBufferPointer<RecordHeader>
    /// The retry headers of a record of a retry topic, or `nil` for a request or a dead letter.
    package var retry: RetryFields?

    init(copiedHeaders: UnsafeBufferPointer<RecordHeader>) { self.copiedHeaders = copiedHeaders }
}

/// The kind of topic that a record comes from.
package enum RecordRole: UInt8 {
    /// A request topic. Its records are in payload form or envelope form, and must not have `push-retry-*` headers.
    case request
    /// A retry topic. Its records are in payload form and have `push-retry-*` headers.
    case retry
}

extension ParsedRequest {
    /// The APNs headers of a notification. The parser creates them. The worker sends them to APNs, and writes them to
    /// retry records.
    ///
    /// The texts are borrowed from the record or the parser's scratch memory. In the value that `copied` returns, they
    /// are borrowed from the memory block of the stored record.
    package struct Headers {
        /// The `apns-topic`, or empty for the app's default. For a broadcast, it is the bundle id in the path of the
        /// request to APNs.
        package var topic: UnsafeRawBufferPointer
        /// The `apns-collapse-id`, or empty for none.
        package var collapseID: UnsafeRawBufferPointer
        /// The `apns-expiration` in seconds since the epoch, or `nil` for none. The parser accepts past times.
        package var expiration: UInt32?
        /// The `apns-push-type`, which the parser sets if the request does not.
        package var pushType: PushType
        /// The `apns-priority`, or 0 for none. The parser sets 5 for background notifications.
        package var priority: UInt8
        /// The `apns-id`. In a parsed request, `.none` means that the producer gave none. In a request to APNs, it
        /// means that APNs creates one. In a result, `.none` means that the notification was rejected before it had an
        /// id, or that APNs did not respond.
        package var apnsID: NotificationUUID

        @inlinable package init(
            topic: UnsafeRawBufferPointer = .nothing, pushType: PushType = .alert, priority: UInt8 = 0,
            expiration: UInt32? = nil, apnsID: NotificationUUID = .none, collapseID: UnsafeRawBufferPointer = .nothing
        ) {
            self.topic = topic
            self.collapseID = collapseID
            self.expiration = expiration
            self.pushType = pushType
            self.priority = priority
            self.apnsID = apnsID
        }

        /// The number of bytes that `copied` writes.
        @inlinable package var byteCount: Int { topic.count &+ collapseID.count }

        /// Returns a copy whose texts are stored at `next`, and advances `next` past them. `next` must have space for
        /// `byteCount` bytes.
        @inlinable package func copied(to next: inout UnsafeMutableRawPointer) -> Headers {
            var headers = self
            headers.topic = Self.copy(topic, &next)
            headers.collapseID = Self.copy(collapseID, &next)
            return headers
        }

        @inlinable package static func copy(
            _ bytes: UnsafeRawBufferPointer, _ next: inout UnsafeMutableRawPointer
        ) -> UnsafeRawBufferPointer {
            guard let source = bytes.baseAddress else { return .nothing }
            next.copyMemory(from: source, byteCount: bytes.count)
            defer { next += bytes.count }
            return UnsafeRawBufferPointer(start: next, count: bytes.count)
        }
    }

    /// Returns the request for a record that becomes a dead letter without being parsed.
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

    /// Marks the notifications as invalid. If the method is called again, the first error is kept.
    ///
    /// - Parameter reason: Apple's reason, or `.none` if Apple has none for this error.
    @inline(never)
    mutating func fail(_ reason: ReasonCode, _ text: StaticString, _ subject: UnsafeRawBufferPointer = .nothing) {
        guard !isInvalid else { return }
        isInvalid = true
        failureReason = reason
        detail = Detail(text, subject.cutText(RecordLimits.detailSubject))
    }

    /// Marks the notifications as invalid because of a header's value. The detail is `text`, or an explanation of the
    /// quotes if the value is in quotes.
    mutating func refuse(_ name: HeaderName, _ text: StaticString, _ value: UnsafeRawBufferPointer) {
        if value.isQuoted {
            fail(name.badValue, ForeignForm.quotedHeader, name.text.lentBytes)
        } else {
            fail(name.badValue, text, value)
        }
    }

    /// Stores the record's key, unless the key is the device token or channel id. Truncates the stored key, and a token
    /// that is too long.
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

    /// Truncates a token that is too long to one byte more than the limit, so that it does not become a valid token.
    mutating func cutToken() { token = token.cut(RecordLimits.deviceToken + 1) }
}

/// A position in a JSON list of device tokens, so that the worker can read the tokens of a fan-out in several steps.
///
/// The cursor is a byte offset into `ParsedRequest.tokenList`, so it is also valid for a copy of the list.
/// `RequestParser` must have accepted the list, and the list must be unchanged since then.
package struct TokenCursor {
    package var position: Int
    /// The index of the next token.
    package var index: Int32

    @inlinable package init() {
        position = 0
        index = 0
    }

    /// Reads the next token into `buffer`, of at least `DeviceToken.textLimit` bytes. Returns `nil` at the end.
    package mutating func next(
        in list: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> DeviceToken.Normalized? {
        guard let text = JSONStringList.next(in: list, after: &position) else { return nil }
        index += 1
        let read = DeviceToken.normalize(text, into: buffer)
        guard read.failure != .none, JSONText(checked: text).hasEscapes else { return read }
        return withUnsafeTemporaryAllocation(byteCount: DeviceToken.textLimit + 1, alignment: 1) { resolved in
            guard let count = JSONText(checked: text).resolve(into: resolved) else { return read }
            return DeviceToken.normalize(UnsafeRawBufferPointer(rebasing: resolved[..<count]), into: buffer)
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Returns whether two tokens or keys are equal, ignoring the case of hex digits.
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

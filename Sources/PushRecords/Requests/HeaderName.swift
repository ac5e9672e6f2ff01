/// The headers that the parser recognizes in requests and retry records.
enum HeaderName: UInt8, CaseIterable {
    case topic, pushType, priority, expiration, collapseID, apnsID
    case channelID, deviceToken, app, environment, notBefore
    case retryRequest, retryAttempt, retryDue, retryFirst, retryKey, retryReason, retrySends, retryInDoubt, retryTried

    static let count = HeaderName.retryTried.rawValue + 1

    var text: StaticString {
        switch self {
        case .topic: "apns-topic"
        case .pushType: "apns-push-type"
        case .priority: "apns-priority"
        case .expiration: "apns-expiration"
        case .collapseID: "apns-collapse-id"
        case .apnsID: "apns-id"
        case .channelID: "apns-channel-id"
        case .deviceToken: "push-device-token"
        case .app: "push-app"
        case .environment: "push-environment"
        case .notBefore: "push-not-before"
        case .retryRequest: "push-retry-request"
        case .retryAttempt: "push-retry-attempt"
        case .retryDue: "push-retry-due-ms"
        case .retryFirst: "push-retry-first-ms"
        case .retryKey: "push-retry-key"
        case .retryReason: "push-retry-reason"
        case .retrySends: "push-retry-sends"
        case .retryInDoubt: "push-retry-in-doubt"
        case .retryTried: "push-retry-tried"
        }
    }

    /// Creates the case for a header's exact name, or `nil` for an unknown name.
    ///
    /// The parser calls this initializer for every header of every record. To be fast, it selects the only possible
    /// name by the length and the second to last byte.
    @inline(__always)
    init?(_ name: UnsafeRawBufferPointer) {
        let candidate: HeaderName
        switch name.count {
        case 7: candidate = .apnsID
        case 8: candidate = .app
        case 10: candidate = .topic
        case 13: candidate = .priority
        case 14: candidate = name[12] == UInt8(ascii: "p") ? .pushType : .retryKey
        case 15:
            switch name[13] {
            case UInt8(ascii: "o"): candidate = .expiration
            case UInt8(ascii: "i"): candidate = .channelID
            default: candidate = .notBefore
            }
        case 16:
            switch name[14] {
            case UInt8(ascii: "i"): candidate = .collapseID
            case UInt8(ascii: "n"): candidate = .environment
            case UInt8(ascii: "d"): candidate = .retrySends
            default: candidate = .retryTried
            }
        case 17:
            switch name[15] {
            case UInt8(ascii: "e"): candidate = .deviceToken
            case UInt8(ascii: "m"): candidate = .retryDue
            default: candidate = .retryReason
            }
        case 18: candidate = name[16] == UInt8(ascii: "s") ? .retryRequest : .retryAttempt
        case 19: candidate = name[17] == UInt8(ascii: "m") ? .retryFirst : .retryInDoubt
        default: return nil
        }
        guard candidate.text.spells(name) else { return nil }
        self = candidate
    }

    /// Whether the header belongs to retry records, which only the worker writes.
    @inline(__always)
    var isRetry: Bool { rawValue >= HeaderName.retryRequest.rawValue }

    /// Whether an envelope's `headers` can contain the header. These are the headers that the worker sends to APNs,
    /// except `apns-channel-id`.
    var isOfEnvelope: Bool { rawValue <= HeaderName.apnsID.rawValue }

    /// Whether the header's value is a number, which an envelope can contain as a JSON number.
    var isNumber: Bool { self == .priority || self == .expiration }

    /// Apple's reason for an invalid value of the header, or `.none` if Apple has no such reason.
    var badValue: ReasonCode {
        switch self {
        case .topic: .badTopic
        case .pushType: .invalidPushType
        case .priority: .badPriority
        case .expiration: .badExpirationDate
        case .collapseID: .badCollapseId
        case .apnsID: .badMessageId
        case .channelID: .badChannelId
        case .deviceToken: .badDeviceToken
        case .app, .environment, .notBefore, .retryRequest, .retryAttempt, .retryDue, .retryFirst, .retryKey,
            .retryReason, .retrySends, .retryInDoubt, .retryTried:
            .none
        }
    }

    /// Returns whether the name begins with `apns-` or `push-` in any case, but not with `push-dlq-`. A dead letter
    /// that is produced to a request topic again has `push-dlq-` headers, and they must not make the request invalid.
    @inline(__always)
    static func hasReservedPrefix(_ name: UnsafeRawBufferPointer) -> Bool {
        guard let base = name.baseAddress, name.count >= 5, base.load(fromByteOffset: 4, as: UInt8.self) == 0x2D else {
            return false
        }
        // The constants below are "apns" and "push" in ASCII.
        let head = UInt32(littleEndian: base.loadUnaligned(as: UInt32.self)) | 0x2020_2020
        if head == 0x736E_7061 { return true }
        return head == 0x6873_7570 && !name.begins("push-dlq-")
    }
}

/// Functions that validate the values of headers in a request to APNs.
///
/// Only printable ASCII is allowed. Other bytes may make a request malformed (RFC 9113, 8.2.1), so that APNs could
/// close the connection.
enum HeaderCheck {
    /// Returns whether `value` is 1 to `limit` bytes of printable ASCII, without quotes around it or spaces at the
    /// ends.
    @inline(__always)
    static func isClean(_ value: UnsafeRawBufferPointer, limit: Int) -> Bool {
        guard let base = value.baseAddress, value.count > 0, value.count <= limit else { return false }
        let (first, last) = (base.load(as: UInt8.self), base.load(fromByteOffset: value.count &- 1, as: UInt8.self))
        guard first != 0x20, last != 0x20, !value.isQuoted else { return false }
        var index = 0
        while value.count &- index >= 8 {
            // A high bit marks a byte that is below 0x20, above 0x7E or not ASCII. Only a marked byte can borrow from
            // or carry into the next byte.
            let word = (base + index).loadUnaligned(as: UInt64.self)
            let marked = (word &- 0x2020_2020_2020_2020) | (word &+ 0x0101_0101_0101_0101) | word
            guard marked & 0x8080_8080_8080_8080 == 0 else { return false }
            index &+= 8
        }
        while index < value.count {
            guard base.load(fromByteOffset: index, as: UInt8.self) &- 0x20 <= 0x5E else { return false }
            index &+= 1
        }
        return true
    }

    /// Returns a decimal number of at most 19 digits, without a sign, or `nil` for any other text or a number above
    /// `Int64.max`.
    static func unsigned(_ value: UnsafeRawBufferPointer) -> Int64? {
        // 19 nines are less than 2 to the power of 64, so the multiplication cannot overflow.
        guard value.count > 0, value.count <= 19 else { return nil }
        var number: UInt64 = 0
        for byte in value {
            guard byte &- 0x30 < 10 else { return nil }
            number = number &* 10 &+ UInt64(byte &- 0x30)
        }
        return Int64(exactly: number)
    }

    /// Returns a priority, or `nil` for a value other than 1, 5 and 10. Source: "Sending notification requests to
    /// APNs", apns-priority.
    static func priority(_ value: UnsafeRawBufferPointer) -> UInt8? {
        switch (value.count, value.first) {
        case (1, 0x31): 1
        case (1, 0x35): 5
        case (2, 0x31): value[1] == 0x30 ? 10 : nil
        default: nil
        }
    }

    /// Returns the push type that the topic's suffix belongs to, or `nil` if the topic does not end with the suffix of
    /// a push type.
    static func pushType(ofTopic topic: UnsafeRawBufferPointer) -> PushType? {
        suffixes.first { _, suffix in
            let start = topic.count - suffix.utf8CodeUnitCount
            return start > 0 && suffix.spells(topic.part(start, topic.count))
        }?.type
    }

    private static let suffixes = PushType.allCases.compactMap { type in type.suffix.map { (type: type, suffix: $0) } }

    static func pushType(_ value: UnsafeRawBufferPointer) -> PushType? {
        let type: PushType
        switch (value.count, value.first) {
        case (5, UInt8(ascii: "a")): type = .alert
        case (10, UInt8(ascii: "b")): type = .background
        case (12, UInt8(ascii: "c")): type = .complication
        case (8, UInt8(ascii: "c")): type = .controls
        case (12, UInt8(ascii: "f")): type = .fileprovider
        case (12, UInt8(ascii: "l")): type = .liveactivity
        case (8, UInt8(ascii: "l")): type = .location
        case (3, UInt8(ascii: "m")): type = .mdm
        case (10, UInt8(ascii: "p")): type = .pushtotalk
        case (4, UInt8(ascii: "v")): type = .voip
        case (7, UInt8(ascii: "w")): type = .widgets
        default: return nil
        }
        return type.text.spells(value) ? type : nil
    }

    static func environment(_ value: UnsafeRawBufferPointer) -> PushEnvironment? {
        PushEnvironment.allCases.first { $0.text.spells(value) }
    }
}

extension UnsafeRawBufferPointer {
    /// A buffer without an address, which represents an absent value.
    @inlinable package static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

    /// Returns a copy of the bytes that is never freed, for commands, which end soon.
    package static func lasting(_ bytes: some Collection<UInt8>) -> UnsafeRawBufferPointer {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 8)
        copy.copyBytes(from: bytes)
        return UnsafeRawBufferPointer(copy)
    }

    @inline(__always)
    func part(_ start: Int, _ end: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: baseAddress! + start, count: end &- start)
    }

    @inline(__always)
    var isQuoted: Bool { count >= 2 && self[0] == ForeignForm.quote && self[count &- 1] == ForeignForm.quote }

    /// Returns whether the bytes begin with `prefix`, ignoring the case of letters. `prefix` must be in lower case.
    func begins(_ prefix: StaticString) -> Bool {
        count >= prefix.utf8CodeUnitCount
            && zip(self, prefix.lentBytes).allSatisfy { byte, expected in
                byte == expected || (byte | 0x20 == expected && 0x61...0x7A ~= expected)
            }
    }
}

extension UnsafeRawBufferPointer {
    /// Returns whether the `count` bytes at `other` equal the buffer's bytes.
    @inlinable @inline(__always)
    package func isEqual(to other: UnsafeRawPointer) -> Bool {
        guard let base = baseAddress else { return true }
        func differs<Word>(at index: Int, _: Word.Type) -> Bool where Word: FixedWidthInteger & BitwiseCopyable {
            (base + index).loadUnaligned(as: Word.self) != (other + index).loadUnaligned(as: Word.self)
        }
        // Compare words of eight bytes. The last word may overlap the word before it.
        if count >= 8 {
            var index = 0
            while index &+ 8 < count {
                if differs(at: index, UInt64.self) { return false }
                index &+= 8
            }
            return !differs(at: count &- 8, UInt64.self)
        }
        if count >= 4 { return !differs(at: 0, UInt32.self) && !differs(at: count &- 4, UInt32.self) }
        for index in 0..<count where differs(at: index, UInt8.self) { return false }
        return true
    }
}

extension StaticString {
    /// Returns whether `bytes` are the UTF-8 bytes of this string.
    @inline(__always)
    func spells(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.count == utf8CodeUnitCount && bytes.isEqual(to: utf8Start)
    }
}

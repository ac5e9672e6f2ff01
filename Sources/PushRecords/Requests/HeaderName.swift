/// The headers this product knows by name, in either role.
///
/// Their values are the places of a field table, so that both forms of a request end in the same checks.
enum HeaderName: UInt8, CaseIterable {
    case topic, pushType, priority, expiration, collapseID, apnsID, channelID
    case deviceToken, app, environment
    case retryRequest, retryAttempt, retryDue, retryFirst, retryKey, retryReason, retrySends, retryInDoubt

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
        case .retryRequest: "push-retry-request"
        case .retryAttempt: "push-retry-attempt"
        case .retryDue: "push-retry-due-ms"
        case .retryFirst: "push-retry-first-ms"
        case .retryKey: "push-retry-key"
        case .retryReason: "push-retry-reason"
        case .retrySends: "push-retry-sends"
        case .retryInDoubt: "push-retry-in-doubt"
        }
    }

    /// The header of that name, in exactly that spelling.
    ///
    /// Runs for every header of every record, so it compares words: the first eight bytes, the last eight, and for the
    /// longer names the eight in between.
    @inline(__always)
    init?(_ name: UnsafeRawBufferPointer) {
        guard let base = name.baseAddress else { return nil }
        let count = name.count
        guard count >= 8 && count <= 19 else {
            guard count == 7 && HeaderName.isID(base) else { return nil }
            self = .apnsID
            return
        }
        let head = UInt64(littleEndian: base.loadUnaligned(as: UInt64.self))
        let tail = UInt64(littleEndian: (base + (count &- 8)).loadUnaligned(as: UInt64.self))
        let found: HeaderName
        let expectedTail: UInt64
        switch (head, count) {
        // apns-topic
        case (0x706F_742D_736E_7061, 10): (found, expectedTail) = (.topic, 0x6369_706F_742D_736E)
        // apns-push-type
        case (0x7375_702D_736E_7061, 14): (found, expectedTail) = (.pushType, 0x6570_7974_2D68_7375)
        // apns-priority
        case (0x6972_702D_736E_7061, 13): (found, expectedTail) = (.priority, 0x7974_6972_6F69_7270)
        // apns-expiration
        case (0x7078_652D_736E_7061, 15): (found, expectedTail) = (.expiration, 0x6E6F_6974_6172_6970)
        // apns-collapse-id
        case (0x6C6F_632D_736E_7061, 16): (found, expectedTail) = (.collapseID, 0x6469_2D65_7370_616C)
        // apns-channel-id
        case (0x6168_632D_736E_7061, 15): (found, expectedTail) = (.channelID, 0x6469_2D6C_656E_6E61)
        // push-device-token
        case (0x7665_642D_6873_7570, 17): (found, expectedTail) = (.deviceToken, 0x6E65_6B6F_742D_6563)
        // push-app
        case (0x7070_612D_6873_7570, 8): (found, expectedTail) = (.app, 0x7070_612D_6873_7570)
        // push-environment
        case (0x766E_652D_6873_7570, 16): (found, expectedTail) = (.environment, 0x746E_656D_6E6F_7269)
        // push-retry-*
        case (0x7465_722D_6873_7570, 14...19):
            self.init(retry: base, count, tail: tail)
            return
        default: return nil
        }
        guard tail == expectedTail else { return nil }
        if found == .deviceToken && base.load(fromByteOffset: 8, as: UInt8.self) != 0x69 { return nil }
        self = found
    }

    /// Whether the header is one that only this worker writes, to its retry topics.
    @inline(__always)
    var isRetry: Bool { rawValue >= HeaderName.retryRequest.rawValue }

    /// Whether a name, not known, begins like a producer's instruction: `apns-` or `push-`, but not with the `push-retry-`
    /// and `push-dlq-` of records that this worker wrote and somebody sends again.
    static func isOwn(_ name: UnsafeRawBufferPointer) -> Bool {
        func begins(_ prefix: StaticString) -> Bool {
            name.count >= prefix.utf8CodeUnitCount && prefix.spells(name.part(0, prefix.utf8CodeUnitCount))
        }
        return begins("apns-") || (begins("push-") && !begins("push-retry-") && !begins("push-dlq-"))
    }

    private static func isID(_ base: UnsafeRawPointer) -> Bool {
        // "apns", "s-id"
        UInt32(littleEndian: base.loadUnaligned(as: UInt32.self)) == 0x736E_7061
            && UInt32(littleEndian: (base + 3).loadUnaligned(as: UInt32.self)) == 0x6469_2D73
    }

    private init?(retry base: UnsafeRawPointer, _ count: Int, tail: UInt64) {
        // "try-"
        guard UInt32(littleEndian: (base + 7).loadUnaligned(as: UInt32.self)) == 0x2D79_7274 else { return nil }
        switch (tail, count) {
        // push-retry-request
        case (0x7473_6575_7165_722D, 18): self = .retryRequest
        // push-retry-attempt
        case (0x7470_6D65_7474_612D, 18): self = .retryAttempt
        // push-retry-due-ms
        case (0x736D_2D65_7564_2D79, 17): self = .retryDue
        // push-retry-first-ms
        case (0x736D_2D74_7372_6966, 19): self = .retryFirst
        // push-retry-key
        case (0x7965_6B2D_7972_7465, 14): self = .retryKey
        // push-retry-reason
        case (0x6E6F_7361_6572_2D79, 17): self = .retryReason
        // push-retry-sends
        case (0x7364_6E65_732D_7972, 16): self = .retrySends
        // push-retry-in-doubt
        case (0x7462_756F_642D_6E69, 19): self = .retryInDoubt
        default: return nil
        }
    }
}

extension StaticString {
    /// Whether `bytes` are exactly this text.
    @inline(__always)
    func spells(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count == utf8CodeUnitCount, let base = bytes.baseAddress else {
            return bytes.count == 0 && utf8CodeUnitCount == 0
        }
        for place in 0..<bytes.count where base.load(fromByteOffset: place, as: UInt8.self) != utf8Start[place] {
            return false
        }
        return true
    }
}

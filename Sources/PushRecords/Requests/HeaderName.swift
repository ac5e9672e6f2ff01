/// The headers that are read each in a way of its own, in either role; what is alike is a `TextHeader`.
enum HeaderName: UInt8, CaseIterable {
    case topic, pushType, priority, expiration, apnsID, channelID
    case deviceToken, app, environment, notBefore
    case retryRequest, retryAttempt, retryDue, retryFirst, retryKey, retryReason, retrySends, retryInDoubt, retryTried

    var text: StaticString {
        switch self {
        case .topic: "apns-topic"
        case .pushType: "apns-push-type"
        case .priority: "apns-priority"
        case .expiration: "apns-expiration"
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

    /// The header of that name, in exactly that spelling.
    ///
    /// Runs for every header of every record, so it compares words: the first eight bytes, the last eight, and for the
    /// longer names four in between.
    @inline(__always)
    init?(_ name: UnsafeRawBufferPointer) {
        guard let base = name.baseAddress, name.count >= 7, name.count <= 19 else { return nil }
        if name.count == 7 {
            guard HeaderName.isID(base) else { return nil }
            self = .apnsID
            return
        }
        let head = UInt64(littleEndian: base.loadUnaligned(as: UInt64.self))
        let tail = UInt64(littleEndian: (base + (name.count &- 8)).loadUnaligned(as: UInt64.self))
        self.init(head, tail, base, name.count)
    }

    private init?(_ head: UInt64, _ tail: UInt64, _ base: UnsafeRawPointer, _ count: Int) {
        switch count {
        case 8:
            // push-app
            if head == 0x7070_612D_6873_7570 && tail == 0x7070_612D_6873_7570 {
                self = .app
                return
            }
        case 10:
            // apns-topic
            if head == 0x706F_742D_736E_7061 && tail == 0x6369_706F_742D_736E {
                self = .topic
                return
            }
        case 13:
            // apns-priority
            if head == 0x6972_702D_736E_7061 && tail == 0x7974_6972_6F69_7270 {
                self = .priority
                return
            }
        case 14:
            // apns-push-type
            if head == 0x7375_702D_736E_7061 && tail == 0x6570_7974_2D68_7375 {
                self = .pushType
                return
            }
            // push-retry-key
            if head == 0x7465_722D_6873_7570 && tail == 0x7965_6B2D_7972_7465 {
                self = .retryKey
                return
            }
        case 15:
            guard let name = HeaderName.ofFifteen(head, tail) else { return nil }
            self = name
            return
        case 16:
            // push-environment
            if head == 0x766E_652D_6873_7570 && tail == 0x746E_656D_6E6F_7269 {
                self = .environment
                return
            }
            // push-retry-sends
            if head == 0x7465_722D_6873_7570 && tail == 0x7364_6E65_732D_7972 {
                self = .retrySends
                return
            }
            // push-retry-tried
            if head == 0x7465_722D_6873_7570 && tail == 0x6465_6972_742D_7972 {
                self = .retryTried
                return
            }
        case 17:
            // push-device-token
            if head == 0x7665_642D_6873_7570 && tail == 0x6E65_6B6F_742D_6563 && HeaderName.middle(base) == 0x6563_6976
            {
                self = .deviceToken
                return
            }
            // push-retry-due-ms
            if head == 0x7465_722D_6873_7570 && tail == 0x736D_2D65_7564_2D79 && HeaderName.middle(base) == 0x2D79_7274
            {
                self = .retryDue
                return
            }
            // push-retry-reason
            if head == 0x7465_722D_6873_7570 && tail == 0x6E6F_7361_6572_2D79 && HeaderName.middle(base) == 0x2D79_7274
            {
                self = .retryReason
                return
            }
        case 18:
            // push-retry-request
            if head == 0x7465_722D_6873_7570 && tail == 0x7473_6575_7165_722D && HeaderName.middle(base) == 0x2D79_7274
            {
                self = .retryRequest
                return
            }
            // push-retry-attempt
            if head == 0x7465_722D_6873_7570 && tail == 0x7470_6D65_7474_612D && HeaderName.middle(base) == 0x2D79_7274
            {
                self = .retryAttempt
                return
            }
        case 19:
            // push-retry-first-ms
            if head == 0x7465_722D_6873_7570 && tail == 0x736D_2D74_7372_6966 && HeaderName.middle(base) == 0x2D79_7274
            {
                self = .retryFirst
                return
            }
            // push-retry-in-doubt
            if head == 0x7465_722D_6873_7570 && tail == 0x7462_756F_642D_6E69 && HeaderName.middle(base) == 0x2D79_7274
            {
                self = .retryInDoubt
                return
            }
        default: break
        }
        return nil
    }

    /// The header of fifteen bytes that begins and ends so.
    @inline(__always)
    private static func ofFifteen(_ head: UInt64, _ tail: UInt64) -> HeaderName? {
        switch (head, tail) {
        // apns-expiration
        case (0x7078_652D_736E_7061, 0x6E6F_6974_6172_6970): .expiration
        // apns-channel-id
        case (0x6168_632D_736E_7061, 0x6469_2D6C_656E_6E61): .channelID
        // push-not-before
        case (0x746F_6E2D_6873_7570, 0x6572_6F66_6562_2D74): .notBefore
        default: nil
        }
    }

    /// Bytes 7 to 10, which in the names of more than 16 lie between head and tail.
    private static func middle(_ base: UnsafeRawPointer) -> UInt32 {
        UInt32(littleEndian: (base + 7).loadUnaligned(as: UInt32.self))
    }

    /// How many there are.
    static let count = HeaderName.retryTried.rawValue + 1

    /// Whether a name, not known, begins like a producer's instruction, in any case of its letters: `apns-` or `push-`,
    /// but not with the `push-retry-` and `push-dlq-` of records that this worker wrote and somebody sends again.
    @inline(__always)
    static func isOwn(_ name: UnsafeRawBufferPointer) -> Bool {
        guard let base = name.baseAddress, name.count >= 5, base.load(fromByteOffset: 4, as: UInt8.self) == 0x2D else {
            return false
        }
        // "apns", "push"
        let head = UInt32(littleEndian: base.loadUnaligned(as: UInt32.self)) | 0x2020_2020
        if head == 0x736E_7061 { return true }
        return head == 0x6873_7570 && !name.begins("push-retry-") && !name.begins("push-dlq-")
    }

    private static func isID(_ base: UnsafeRawPointer) -> Bool {
        // "apns", "s-id"
        UInt32(littleEndian: base.loadUnaligned(as: UInt32.self)) == 0x736E_7061
            && UInt32(littleEndian: (base + 3).loadUnaligned(as: UInt32.self)) == 0x6469_2D73
    }
}

extension UnsafeRawBufferPointer {
    /// Whether it begins with `prefix`, which is in lower case, in any case of its letters.
    func begins(_ prefix: StaticString) -> Bool {
        count >= prefix.utf8CodeUnitCount
            && zip(self, prefix.lentBytes).allSatisfy { byte, expected in
                byte == expected || (byte | 0x20 == expected && 0x61...0x7A ~= expected)
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
        var index = 0
        while bytes.count &- index >= 8 {
            let word = (base + index).loadUnaligned(as: UInt64.self)
            let expected = UnsafeRawPointer(utf8Start + index).loadUnaligned(as: UInt64.self)
            guard word == expected else { return false }
            index &+= 8
        }
        while index < bytes.count {
            guard base.load(fromByteOffset: index, as: UInt8.self) == utf8Start[index] else { return false }
            index &+= 1
        }
        return true
    }
}

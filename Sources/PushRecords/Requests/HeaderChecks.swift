// What may become a header of a request to Apple. One bad byte would make HTTP/2 kill the whole connection (RFC 9113,
// 8.2.1), so nothing passes that is not printable ASCII.

/// What is wrong with a value; `reason` is `.none` where Apple has no word for it.
struct RequestFault {
    var reason: ReasonCode
    var detail: Detail

    init(_ reason: ReasonCode, _ text: StaticString, _ subject: UnsafeRawBufferPointer = .nothing) {
        self.reason = reason
        detail = Detail(text, subject.cutText(RecordLimits.detailSubject))
    }
}

enum HeaderCheck {
    /// Whether `value` is 1 to `limit` bytes of printable ASCII without a space at either end.
    @inline(__always)
    static func isClean(_ value: UnsafeRawBufferPointer, limit: Int) -> Bool {
        guard let base = value.baseAddress, value.count > 0, value.count <= limit else { return false }
        guard base.load(as: UInt8.self) != 0x20,
            base.load(fromByteOffset: value.count &- 1, as: UInt8.self) != 0x20
        else { return false }
        var index = 0
        while value.count &- index >= 8 {
            // A high bit: below 0x20, above 0x7E, or not ASCII. (What borrows or carries is marked itself.)
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

    /// A decimal number without sign; `nil` when it is something else, has more than 19 digits or does not fit.
    static func unsigned(_ value: UnsafeRawBufferPointer) -> Int64? {
        // 19 nines are less than 2 to the power of 64.
        guard value.count > 0, value.count <= 19 else { return nil }
        var number: UInt64 = 0
        for byte in value {
            guard byte &- 0x30 < 10 else { return nil }
            number = number &* 10 &+ UInt64(byte &- 0x30)
        }
        return Int64(exactly: number)
    }

    /// 1, 5 or 10; `nil` for anything else. Source: "Sending notification requests to APNs", apns-priority.
    static func priority(_ value: UnsafeRawBufferPointer) -> UInt8? {
        switch (value.count, value.first) {
        case (1, 0x31): 1
        case (1, 0x35): 5
        case (2, 0x31): value[1] == 0x30 ? 10 : nil
        default: nil
        }
    }

    /// Whether a topic is that of Live Activities of single devices: a bundle id with Apple's suffix.
    static func isLiveActivityTopic(_ value: UnsafeRawBufferPointer) -> Bool {
        let suffix = (".push-type.liveactivity" as StaticString).lentBytes
        return value.count > suffix.count && value.suffix(suffix.count).elementsEqual(suffix)
    }

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

/// Gathers the headers that results carry on. Reused from record to record; owns its lists, not the bytes.
///
/// Among them is the worker's own `push-replay-of` (`ReplayWriter`), which so goes the same way as a `traceparent`: to
/// the result, through retry records, and through dead letters, which have all headers.
struct CopiedHeaders: ~Copyable {
    /// Carried on whatever the configuration says.
    private static let always = ["traceparent", "tracestate", ReplayWriter.header.description]

    private let names: [Name]
    /// One bit a length of a name, so that most headers are passed over without a comparison.
    private let lengths: UInt64
    /// Whether a header that this product knows by name is among them; else those need not be compared.
    let includesKnown: Bool
    private let found: UnsafeMutablePointer<RecordHeader>
    private var count = 0
    private var bytes = 0

    init(_ configured: [String]) {
        var names: [Name] = []
        for name in Self.always + configured where !names.contains(where: { $0.text == name }) {
            names.append(Name(text: name, utf8: Array(name.utf8)))
        }
        self.names = names
        lengths = names.reduce(0) { $0 | 1 << UInt64(min($1.utf8.count, 63)) }
        includesKnown = names.contains { $0.utf8.withUnsafeBytes { HeaderName($0) != nil } }
        found = .allocate(capacity: RecordLimits.copiedHeaders)
    }

    deinit { found.deallocate() }

    mutating func removeAll() {
        count = 0
        bytes = 0
    }

    /// Whether it is one of those to carry on, also where it has no value or finds no room.
    @inline(__always)
    @discardableResult
    mutating func consider(_ header: RecordHeader) -> Bool {
        guard lengths & 1 &<< UInt64(min(header.name.count, 63)) != 0 else { return false }
        return compare(header)
    }

    private mutating func compare(_ header: RecordHeader) -> Bool {
        guard names.contains(where: { $0.utf8.elementsEqual(header.name) }) else { return false }
        guard header.value.baseAddress != nil else { return true }
        let size = header.name.count + header.value.count
        guard count < RecordLimits.copiedHeaders, bytes + size <= RecordLimits.copiedBytes else { return true }
        (found + count).initialize(to: header)
        count += 1
        bytes += size
        return true
    }

    /// What was gathered, lent until `removeAll`.
    var list: UnsafeBufferPointer<RecordHeader> { UnsafeBufferPointer(start: found, count: count) }

    private struct Name {
        var text: String
        var utf8: [UInt8]
    }
}

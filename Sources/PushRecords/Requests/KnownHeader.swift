/// A header known by name: a `HeaderName` or a `TextHeader`. Its number is its place in a field table, so that both
/// forms of a request end in the same checks.
struct KnownHeader: Equatable {
    let index: UInt8

    @inline(__always)
    init(_ name: HeaderName) { index = name.rawValue }

    @inline(__always)
    init(_ text: TextHeader) { index = HeaderName.count &+ text.rawValue }

    /// `nil`: none has this place.
    init?(index: UInt8) {
        guard index < Self.count else { return nil }
        self.index = index
    }

    /// How many there are, at the places from 0 on.
    static let count = HeaderName.count + UInt8(TextHeader.allCases.count)

    /// The header of that name, in exactly that spelling. Runs for every header of every record.
    @inline(__always)
    init?(_ name: UnsafeRawBufferPointer) {
        if let known = HeaderName(name) {
            self.init(known)
            return
        }
        for text in TextHeaders.all where text.row.name.spells(name) {
            self.init(text)
            return
        }
        return nil
    }

    /// All, by their places.
    static var all: [KnownHeader] {
        HeaderName.allCases.map { KnownHeader($0) } + TextHeader.allCases.map { KnownHeader($0) }
    }

    /// `nil`: it is a text.
    var name: HeaderName? { HeaderName(rawValue: index) }

    /// `nil`: it is none of the texts.
    var textHeader: TextHeader? {
        index < HeaderName.count ? nil : TextHeader(rawValue: index - HeaderName.count)
    }

    var text: StaticString { name?.text ?? textHeader?.row.name ?? "" }

    /// Whether the header is one that only this worker writes, to its retry topics.
    @inline(__always)
    var isRetry: Bool { index >= HeaderName.retryRequest.rawValue && index < HeaderName.count }

    /// Whether an envelope may have it among its `headers`: what goes to Apple, whoever it is for.
    var isOfEnvelope: Bool { index <= HeaderName.apnsID.rawValue || index >= HeaderName.count }

    /// Apple's word for a wrong value of it.
    var badValue: ReasonCode {
        if let textHeader { return textHeader.row.reason }
        return switch name {
        case .topic: .badTopic
        case .pushType: .invalidPushType
        case .priority: .badPriority
        case .expiration: .badExpirationDate
        case .apnsID: .badMessageId
        case .channelID: .badChannelId
        case .deviceToken: .badDeviceToken
        case .app, .environment, .notBefore, .retryRequest, .retryAttempt, .retryDue, .retryFirst, .retryKey,
            .retryReason,
            .retrySends, .retryInDoubt, .retryTried, nil:
            .none
        }
    }
}

// The name that a producer most likely meant by one that there is not: what differs from it, but for the case of its
// letters, by at most a third. It runs only for a request that is refused, and allocates nothing: whoever floods the
// topic with such gains nothing.

extension KnownHeader {
    /// `nil`: none is near. A third of what follows the names' common start counts, which a name in an envelope may
    /// lack.
    init?(nearest name: UnsafeRawBufferPointer, inEnvelope: Bool) {
        var nearest = Nearest(name)
        let hasStart = HeaderName.isOwn(name)
        for index in 0..<Self.count {
            guard let header = KnownHeader(index: index), !header.isRetry, !inEnvelope || header.isOfEnvelope else {
                continue
            }
            let text = header.text.lentBytes
            // "apns-", "push-"
            let rest = text.part(5, text.count)
            nearest.look(at: text, index, limit: (rest.count + 2) / 3)
            if inEnvelope, !hasStart { nearest.look(at: rest, index, limit: (rest.count + 2) / 3) }
        }
        guard let index = nearest.index else { return nil }
        self.init(index: index)
    }
}

extension EnvelopeTable.Name {
    /// `nil`: none is near.
    init?(nearest name: UnsafeRawBufferPointer) {
        var nearest = Nearest(name)
        for index in 0..<Self.aps.rawValue {
            guard let text = Self(rawValue: index)?.text.lentBytes else { continue }
            nearest.look(at: text, index, limit: (text.count + 2) / 3)
        }
        guard let index = nearest.index else { return nil }
        self.init(rawValue: index)
    }
}

extension PushType {
    /// `nil`: none is near.
    init?(nearest name: UnsafeRawBufferPointer) {
        var nearest = Nearest(name)
        for index in 0..<UInt8(Self.allCases.count) {
            guard let text = Self(rawValue: index)?.text.lentBytes else { continue }
            nearest.look(at: text, index, limit: (text.count + 2) / 3)
        }
        guard let index = nearest.index else { return nil }
        self.init(rawValue: index)
    }
}

/// The nearest of several names to one, by their places in a table.
private struct Nearest {
    private let name: UnsafeRawBufferPointer
    private var distance = Int.max
    /// `nil`: none was near enough.
    private(set) var index: UInt8?

    /// Names with more bytes than this are near to none.
    private static let longest = 31

    init(_ name: UnsafeRawBufferPointer) { self.name = name }

    /// - Parameter limit: how much it may differ; one letter always may.
    mutating func look(at text: UnsafeRawBufferPointer, _ index: UInt8, limit: Int) {
        guard name.count <= Self.longest else { return }
        let distance = Self.distance(name, text)
        guard distance <= max(1, limit), distance < self.distance else { return }
        self.distance = distance
        self.index = index
    }

    /// Letters to insert, delete or replace, whatever their case (Levenshtein's distance).
    private static func distance(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Int {
        withUnsafeTemporaryAllocation(of: Int.self, capacity: b.count + 1) { row in
            for j in 0...b.count { row[j] = j }
            for i in 0..<a.count {
                var diagonal = row[0]
                row[0] = i + 1
                for j in 0..<b.count {
                    let replaced = diagonal + (a[i] | 0x20 == b[j] | 0x20 ? 0 : 1)
                    diagonal = row[j + 1]
                    row[j + 1] = min(replaced, min(row[j], diagonal) + 1)
                }
            }
            return row[b.count]
        }
    }
}

/// The header values of one request, by name, wherever they came from. Reused from record to record; owns its table,
/// not the bytes.
struct FieldTable: ~Copyable {
    private let values: UnsafeMutablePointer<UnsafeRawBufferPointer>
    /// One bit a name: whether it is there, in this record, with a value.
    private var present: UInt32 = 0
    /// One bit a name: whether it was there before, with a value or without.
    private var seen: UInt32 = 0

    init() {
        let count = KnownHeader.all.count
        precondition(count <= UInt32.bitWidth, "a field table has one bit a name")
        values = .allocate(capacity: count)
        values.initialize(repeating: .nothing, count: count)
    }

    deinit { values.deallocate() }

    mutating func removeAll() {
        present = 0
        seen = 0
    }

    /// Keeps the first value of each name; `false` when the name was there before.
    @inline(__always)
    mutating func add(_ header: KnownHeader, _ value: UnsafeRawBufferPointer) -> Bool {
        let bit: UInt32 = 1 &<< UInt32(header.index)
        guard seen & bit == 0 else { return false }
        seen |= bit
        guard value.baseAddress != nil else { return true }
        present |= bit
        values[Int(header.index)] = value
        return true
    }

    @inline(__always)
    func has(_ name: HeaderName) -> Bool { present & (1 &<< UInt32(name.rawValue)) != 0 }

    /// The name's value; `nil` when it is not there.
    @inline(__always)
    subscript(_ name: HeaderName) -> UnsafeRawBufferPointer? { has(name) ? values[Int(name.rawValue)] : nil }

    /// The text headers that are there.
    @inline(__always)
    var texts: TextHeaders { TextHeaders(bits: present &>> UInt32(HeaderName.count)) }

    /// The value of a text header that is there.
    @inline(__always)
    subscript(_ header: TextHeader) -> UnsafeRawBufferPointer { values[Int(KnownHeader(header).index)] }
}

extension UnsafeRawBufferPointer {
    /// No bytes, and no address: what is not there.
    @inlinable package static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

    /// A part of lent bytes.
    @inline(__always)
    func part(_ start: Int, _ end: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: baseAddress! + start, count: end &- start)
    }
}

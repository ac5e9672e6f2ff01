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

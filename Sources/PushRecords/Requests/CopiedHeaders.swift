/// The headers of one record that the worker copies to its results. The list is reused for each record, and its headers
/// are borrowed.
///
/// The list includes `push-replay-of` (`ReplayWriter`). The worker also copies these headers to retry records.
struct CopiedHeaders: ~Copyable {
    /// The names of headers that the worker always copies, regardless of the configuration.
    private static let always = ["traceparent", "tracestate", ReplayWriter.header.description]

    private let names: [[UInt8]]
    /// A bit set with the lengths of all names, so that most headers are skipped without a comparison.
    private let lengths: UInt64
    /// Whether the names include a `HeaderName`. If they do not, a header whose name is a `HeaderName` needs no
    /// comparison.
    let includesKnown: Bool
    private let found: UnsafeMutablePointer<RecordHeader>
    private var count = 0
    private var bytes = 0

    init(_ configured: [String]) {
        names = (Self.always + configured).map { Array($0.utf8) }
        lengths = names.reduce(0) { $0 | 1 << UInt64(min($1.count, 63)) }
        includesKnown = names.contains { $0.withUnsafeBytes { HeaderName($0) != nil } }
        found = .allocate(capacity: RecordLimits.copiedHeaders)
    }

    deinit { found.deallocate() }

    mutating func removeAll() {
        count = 0
        bytes = 0
    }

    /// Returns whether the header's name is one of `names`. If it is, adds the header, provided that it has a value and
    /// there is space.
    @inline(__always)
    @discardableResult
    mutating func consider(_ header: RecordHeader) -> Bool {
        guard lengths & 1 &<< UInt64(min(header.name.count, 63)) != 0 else { return false }
        return compare(header)
    }

    private mutating func compare(_ header: RecordHeader) -> Bool {
        let isOne = names.contains { name in
            name.count == header.name.count && name.withUnsafeBytes { header.name.isEqual(to: $0.baseAddress!) }
        }
        guard isOne else { return false }
        guard header.value.baseAddress != nil else { return true }
        let size = header.name.count + header.value.count
        guard count < RecordLimits.copiedHeaders, bytes + size <= RecordLimits.copiedBytes else { return true }
        (found + count).initialize(to: header)
        count += 1
        bytes += size
        return true
    }

    /// The copied headers, valid until `removeAll`.
    var list: UnsafeBufferPointer<RecordHeader> { UnsafeBufferPointer(start: found, count: count) }
}

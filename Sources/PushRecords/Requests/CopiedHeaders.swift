/// Gathers the headers that results carry on. Reused from record to record; owns its lists, not the bytes.
struct CopiedHeaders: ~Copyable {
    private let names: [StaticOrOwnedName]
    /// One bit a length of a name, so that most headers are passed over without a comparison.
    private let lengths: UInt64
    private let found: UnsafeMutablePointer<RecordHeader>
    private var count = 0
    private var bytes = 0

    init(_ configured: [String]) {
        var names: [StaticOrOwnedName] = []
        for name in ["traceparent", "tracestate"] + configured where !names.contains(where: { $0.text == name }) {
            names.append(StaticOrOwnedName(text: name, utf8: Array(name.utf8)))
        }
        self.names = names
        lengths = names.reduce(0) { $0 | 1 << UInt64(min($1.utf8.count, 63)) }
        found = .allocate(capacity: RequestParser.copiedHeaderLimit)
    }

    deinit { found.deallocate() }

    mutating func removeAll() {
        count = 0
        bytes = 0
    }

    @inline(__always)
    mutating func consider(_ header: RecordHeader) {
        guard lengths & 1 &<< UInt64(min(header.name.count, 63)) != 0 else { return }
        compare(header)
    }

    private mutating func compare(_ header: RecordHeader) {
        guard header.value.baseAddress != nil, names.contains(where: { $0.utf8.elementsEqual(header.name) }) else {
            return
        }
        let size = header.name.count + header.value.count
        guard count < RequestParser.copiedHeaderLimit, bytes + size <= RequestParser.copiedByteLimit else { return }
        (found + count).initialize(to: header)
        count += 1
        bytes += size
    }

    /// What was gathered, lent until `removeAll`.
    var list: UnsafeBufferPointer<RecordHeader> { UnsafeBufferPointer(start: found, count: count) }

    private struct StaticOrOwnedName {
        var text: String
        var utf8: [UInt8]
    }
}

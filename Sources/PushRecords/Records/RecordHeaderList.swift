/// A list of headers that is kept and reused: it grows, and never shrinks. Owns the list, not the bytes.
struct RecordHeaderList: ~Copyable {
    private var storage: UnsafeMutablePointer<RecordHeader>
    private var capacity: Int
    private var count = 0

    init(capacity: Int = RecordLimits.copiedHeaders + 24) {
        storage = .allocate(capacity: capacity)
        self.capacity = capacity
    }

    deinit { storage.deallocate() }

    mutating func removeAll() { count = 0 }

    @inline(__always)
    mutating func append(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
        append(RecordHeader(name: name, value: value))
    }

    @inline(__always)
    mutating func append(_ header: RecordHeader) {
        if count == capacity { grow() }
        (storage + count).initialize(to: header)
        count &+= 1
    }

    mutating func append(contentsOf headers: UnsafeBufferPointer<RecordHeader>) {
        for header in headers { append(header) }
    }

    @inline(never)
    private mutating func grow() {
        let larger = UnsafeMutablePointer<RecordHeader>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: storage, count: count)
        storage.deallocate()
        storage = larger
        capacity *= 2
    }

    /// Lent until the next append or `removeAll`.
    var list: UnsafeBufferPointer<RecordHeader> { UnsafeBufferPointer(start: storage, count: count) }
}

/// Rows one after the other in memory that grows by doubling; they never move relative to each other.
struct Rows<Row: BitwiseCopyable>: ~Copyable {
    private(set) var memory: UnsafeMutablePointer<Row>
    private(set) var count = 0
    private var capacity: Int

    init(capacity: Int = 1024) {
        self.capacity = capacity
        memory = .allocate(capacity: capacity)
    }

    deinit { memory.deallocate() }

    @inline(__always)
    mutating func append(_ row: Row) {
        if count == capacity { grow(to: capacity * 2) }
        (memory + count).initialize(to: row)
        count += 1
    }

    mutating func append(bytes: UnsafeRawBufferPointer) where Row == UInt8 {
        while count + bytes.count > capacity { grow(to: capacity * 2) }
        UnsafeMutableRawPointer(memory + count).copyMemory(from: bytes.baseAddress!, byteCount: bytes.count)
        count += bytes.count
    }

    private mutating func grow(to larger: Int) {
        let moved = UnsafeMutablePointer<Row>.allocate(capacity: larger)
        moved.update(from: memory, count: count)
        memory.deallocate()
        memory = moved
        capacity = larger
    }
}

import Glibc

/// Bytes for the peer, gathered until the caller takes them; grows by doubling, keeps its memory.
///
/// One thread at a time. `total` counts every byte ever appended: a position in the connection's plaintext.
@unsafe
struct OutputBuffer {
    private(set) var base: UnsafeMutableRawPointer
    private var capacity: Int
    private(set) var count = 0
    private(set) var total: Int64 = 0

    init(capacity: Int) {
        unsafe self.capacity = capacity
        unsafe base = .allocate(byteCount: capacity, alignment: 16)
    }

    func free() { unsafe base.deallocate() }

    /// Room for `more` bytes, then where to write them.
    @inline(__always)
    mutating func reserve(_ more: Int) -> UnsafeMutableRawPointer {
        if unsafe count &+ more > capacity { unsafe grow(more) }
        return unsafe base + count
    }

    @inline(__always)
    mutating func advance(_ written: Int) {
        unsafe count &+= written
        unsafe total &+= Int64(written)
    }

    @inline(__always)
    mutating func append(_ bytes: UnsafeRawPointer, _ size: Int) {
        let place = unsafe reserve(size)
        unsafe memcpy(place, bytes, size)
        unsafe advance(size)
    }

    /// Forgets the first `taken` bytes.
    mutating func consume(_ taken: Int) {
        precondition(unsafe taken >= 0 && taken <= count, "more output consumed than there is")
        let rest = unsafe count - taken
        if rest > 0 { unsafe memmove(base, base + taken, rest) }
        unsafe count = rest
    }

    private mutating func grow(_ more: Int) {
        var size = unsafe capacity * 2
        while unsafe size < count + more { size *= 2 }
        let larger = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
        unsafe memcpy(larger, base, count)
        unsafe base.deallocate()
        unsafe base = unsafe larger
        unsafe capacity = size
    }
}

/// What callbacks append to while a C call runs, and the session's owner drains afterwards; plain values, in order.
///
/// One thread at a time. Its memory is kept; it grows with what one `receive` brings.
@unsafe
struct EventSink<Element: BitwiseCopyable> {
    private var base: UnsafeMutablePointer<Element>
    private var capacity = 64
    private(set) var count = 0
    private var head = 0

    init() { unsafe base = .allocate(capacity: 64) }

    func free() { unsafe base.deallocate() }

    mutating func append(_ element: Element) {
        if unsafe count == capacity { unsafe grow() }
        unsafe (base + count).initialize(to: element)
        unsafe count += 1
    }

    /// The oldest one not popped yet.
    mutating func popFirst() -> Element? {
        guard unsafe head < count else {
            unsafe head = 0
            unsafe count = 0
            return nil
        }
        defer { unsafe head += 1 }
        return unsafe base[head]
    }

    private mutating func grow() {
        let larger = unsafe UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        unsafe larger.update(from: base, count: count)
        unsafe base.deallocate()
        unsafe base = unsafe larger
        unsafe capacity *= 2
    }
}

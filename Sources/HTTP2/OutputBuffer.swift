import Glibc

/// A reusable output buffer, which grows by doubling. Not thread-safe.
@unsafe
struct OutputBuffer {
    private(set) var base: UnsafeMutableRawPointer?
    private var capacity = 0
    private(set) var count = 0
    /// The number of bytes appended so far. In a session's output, this is the position of the next byte.
    private(set) var total: Int64 = 0

    static var nothing: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: nil, count: 0) }

    func free() { unsafe base?.deallocate() }

    var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }

    /// Reserves space for `more` bytes and returns the address to write to.
    @inline(__always)
    mutating func reserve(_ more: Int) -> UnsafeMutableRawPointer {
        if unsafe base == nil || count &+ more > capacity { unsafe grow(more) }
        return unsafe base! + count
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

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        if let base = bytes.baseAddress, bytes.count > 0 { unsafe append(base, bytes.count) }
    }

    mutating func consume(_ taken: Int) {
        precondition(unsafe taken >= 0 && taken <= count, "consumed bytes must be in the output buffer")
        let rest = unsafe count - taken
        if rest > 0, let base = unsafe base { unsafe memmove(base, base + taken, rest) }
        unsafe count = rest
    }

    mutating func removeAll() { unsafe count = 0 }

    private mutating func grow(_ more: Int) {
        var size = unsafe max(128, capacity * 2)
        while unsafe size < count + more { size *= 2 }
        let larger = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
        if let base = unsafe base {
            unsafe memcpy(larger, base, count)
            unsafe base.deallocate()
        }
        unsafe base = unsafe larger
        unsafe capacity = size
    }
}

/// A reusable queue. Callbacks append to it during a C call, and Swift code reads it in order after the call.
struct EventSink<Element> {
    private var elements: ContiguousArray<Element> = []
    private var head = 0

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard head < elements.count else {
            head = 0
            elements.removeAll(keepingCapacity: true)
            return nil
        }
        defer { head += 1 }
        return elements[head]
    }
}

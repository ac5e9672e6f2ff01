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

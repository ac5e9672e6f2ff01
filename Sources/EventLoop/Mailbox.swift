internal import CLinux
internal import Glibc

/// Takes elements from any thread and hands them, in batches and in order of posting, to one handler on the loop's
/// thread. The loop is woken once, when the mailbox was empty and the loop asleep.
///
/// Elements posted from one thread arrive in its order. What is still in it when the loop stops for good is dropped.
package final class Mailbox<Element: Sendable>: @unchecked Sendable {
    private let loop: Loop
    private let capacity: Int
    private let elements = Guarded<[Element]>([])
    /// Loop's thread only, as the spare array.
    private let handler: ([Element]) -> Void
    private var batch: [Element] = []

    /// `handler` gets all elements that waited, on the loop's thread; it must not keep the array, which is reused.
    /// Beyond `capacity` elements `post` refuses.
    package init(loop: Loop, capacity: Int = .max, handler: @escaping ([Element]) -> Void) {
        self.loop = loop
        self.capacity = capacity
        self.handler = handler
    }

    /// Adds an element. Returns false, and adds nothing, if the mailbox is full. Any thread.
    @discardableResult
    package func post(_ element: Element) -> Bool { add(1) { $0.append(element) } }

    /// Adds all elements, or returns false and adds none if they do not fit. Any thread.
    @discardableResult
    package func post(contentsOf batch: [Element]) -> Bool {
        batch.isEmpty || add(batch.count) { $0.append(contentsOf: batch) }
    }

    private func add(_ count: Int, _ append: (inout [Element]) -> Void) -> Bool {
        var wasEmpty = false
        let isTaken = elements.withLock { elements in
            guard count <= capacity - elements.count else { return false }
            wasEmpty = elements.isEmpty
            append(&elements)
            return true
        }
        if isTaken, wasEmpty { loop.perform { self.deliver() } }
        return isTaken
    }

    private func deliver() {
        elements.withLock { swap(&$0, &batch) }
        handler(batch)
        batch.removeAll(keepingCapacity: true)
    }
}

/// An eventfd(2) that other code writes to, such as librdkafka's queues.
package final class Doorbell {
    /// Takes 8 bytes with the number 1 each time. Non-blocking; open as long as the doorbell lives.
    package let descriptor: Int32
    private let loop: Loop
    private var registration: Registration?

    /// - Parameter handler: called on the loop's thread, once for all writes since the last turn.
    package init(loop: Loop, handler: @escaping () -> Void) throws(SystemError) {
        self.loop = loop
        let descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        self.descriptor = descriptor
        guard descriptor >= 0 else { throw SystemError(call: "eventfd", code: errno) }
        registration = try loop.register(descriptor, for: .readable) { _ in
            var count: UInt64 = 0
            // eventfd(2): one read takes all that was added.
            _ = unsafe read(descriptor, &count, 8)
            handler()
        }
    }

    deinit {
        if let registration { loop.unregister(registration) }
        if descriptor >= 0 { close(descriptor) }
    }
}

/// A value that one thread at a time may touch.
///
/// Unlike Synchronization's `Mutex` (Swift 6.3), ThreadSanitizer knows pthread_mutex_lock(3), and reports no race for
/// values that pass through it. Both cost some 20 ns uncontended.
@safe package final class Guarded<Value>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var value: Value

    package init(_ value: sending Value) {
        self.value = value
        unsafe mutex = .allocate(capacity: 1)
        unsafe mutex.initialize(to: pthread_mutex_t())
        // pthread_mutex_init(3): always returns 0.
        unsafe pthread_mutex_init(mutex, nil)
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    /// Any thread. The body must not lock the same value again.
    package func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return body(&value)
    }
}

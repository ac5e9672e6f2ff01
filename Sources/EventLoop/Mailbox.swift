internal import CLinux
internal import Glibc

/// Takes elements from any thread and hands them, in batches and in order of posting, to one handler on the loop's
/// thread. The loop is woken once, when the mailbox was empty and the loop asleep.
///
/// Elements posted from one thread arrive in its order. What is still in it when the loop stops for good is dropped.
package final class Mailbox<Element: Sendable>: Sendable, Deliverable {
    private let loop: Loop
    private let capacity: Int
    private let elements = Guarded<[Element]>([])
    private let reader: Reader

    /// The handler and the spare array, of the loop's thread only.
    private final class Reader: @unchecked Sendable {
        let handler: ([Element]) -> Void
        var batch: [Element] = []
        init(_ handler: @escaping ([Element]) -> Void) { self.handler = handler }
    }

    /// - Parameters:
    ///   - capacity: most elements that wait; `post` then refuses. Leave it out only where another limit holds.
    ///   - handler: called on the loop's thread with all that waited. The array's storage is used again: read it, do
    ///     not
    ///     keep it.
    package init(loop: Loop, capacity: Int = .max, handler: @escaping ([Element]) -> Void) {
        self.loop = loop
        self.capacity = capacity
        reader = Reader(handler)
    }

    /// Any thread. False: full, and nothing was taken.
    @discardableResult
    package func post(_ element: Element) -> Bool {
        var wasEmpty = false
        let isTaken = elements.withLock { elements in
            guard elements.count < capacity else { return false }
            wasEmpty = elements.isEmpty
            elements.append(element)
            return true
        }
        if wasEmpty { loop.deliverSoon(self) }
        return isTaken
    }

    /// Any thread. All or nothing; false: they do not fit, and none was taken.
    @discardableResult
    package func post(contentsOf batch: [Element]) -> Bool {
        guard !batch.isEmpty else { return true }
        var wasEmpty = false
        let isTaken = elements.withLock { elements in
            guard batch.count <= capacity - elements.count else { return false }
            wasEmpty = elements.isEmpty
            elements.append(contentsOf: batch)
            return true
        }
        if wasEmpty { loop.deliverSoon(self) }
        return isTaken
    }

    /// How many wait. Any thread; for metrics.
    package var count: Int { elements.withLock { $0.count } }

    func deliver() {
        elements.withLock { swap(&$0, &reader.batch) }
        reader.handler(reader.batch)
        reader.batch.removeAll(keepingCapacity: true)
    }
}

/// An eventfd(2) that somebody else's code writes to when there is something to do: librdkafka's queues, for one.
package final class Doorbell {
    /// What to hand to whoever rings: 8 bytes with the number 1 each time. Non-blocking; open as long as the doorbell
    /// lives.
    package let descriptor: Int32
    private let loop: Loop
    private var registration: Registration?

    /// `handler` is called on the loop's thread, once for all rings since the last turn.
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
/// In place of Synchronization's `Mutex`: that one takes the futex in code ThreadSanitizer does not see, so that all
/// that passes through it counts as a race (Swift 6.3); pthread_mutex_lock(3) it knows. Both cost some 20 ns
/// uncontended.
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

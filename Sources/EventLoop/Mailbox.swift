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

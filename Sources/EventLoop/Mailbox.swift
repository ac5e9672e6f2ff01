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
    ///   - handler: called on the loop's thread with all elements that waited. Do not keep the array: its storage is
    ///     reused.
    package init(loop: Loop, capacity: Int = .max, handler: @escaping ([Element]) -> Void) {
        self.loop = loop
        self.capacity = capacity
        reader = Reader(handler)
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
        if isTaken, wasEmpty { loop.deliverSoon(self) }
        return isTaken
    }

    func deliver() {
        elements.withLock { swap(&$0, &reader.batch) }
        reader.handler(reader.batch)
        reader.batch.removeAll(keepingCapacity: true)
    }
}

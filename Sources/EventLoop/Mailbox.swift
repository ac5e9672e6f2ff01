/// Takes elements from any thread and hands them, in batches and in order of posting, to one handler on the loop's
/// thread. The loop is woken once, when the mailbox was empty and the loop asleep.
///
/// Elements posted from one thread arrive in its order. What is still in it when the loop stops for good is dropped.
package final class Mailbox<Element: Sendable>: @unchecked Sendable, Deliverable {
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
        if isTaken, wasEmpty { loop.deliverSoon(self) }
        return isTaken
    }

    func deliver() {
        elements.withLock { swap(&$0, &batch) }
        handler(batch)
        batch.removeAll(keepingCapacity: true)
    }
}

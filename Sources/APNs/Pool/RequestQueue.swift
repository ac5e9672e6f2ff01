internal import PushTransport

/// Requests that no connection can accept now, in order. The storage is reused.
struct RequestQueue {
    private var elements: ContiguousArray<OutgoingRequest> = []
    private var head = 0

    /// The capacity up to which the storage is kept. Larger storage, such as some megabytes after a burst, is freed.
    private static let keptCapacity = 4_096

    var count: Int { elements.count - head }
    var isEmpty: Bool { head == elements.count }

    var first: OutgoingRequest {
        _read { yield elements[head] }
    }

    mutating func append(contentsOf batch: some Collection<OutgoingRequest>) {
        if head > 0 && head >= elements.count / 2 {
            elements.removeFirst(head)
            head = 0
        }
        elements.append(contentsOf: batch)
    }

    mutating func removeFirst() {
        head += 1
        if head == elements.count {
            elements.removeAll(keepingCapacity: elements.capacity <= Self.keptCapacity)
            head = 0
        }
    }

    /// Removes and returns the requests with matching ids, in order.
    mutating func removeAll(where matches: (NotificationID) -> Bool) -> [NotificationID] {
        var removed: [NotificationID] = []
        elements.removeFirst(head)
        head = 0
        elements.removeAll { request in
            guard matches(request.id) else { return false }
            removed.append(request.id)
            return true
        }
        return removed
    }
}

/// Suspects that wait for the quarantine connection. When that connection is lost, it is unknown which of its requests
/// is the cause, so each of them is sent alone on the next connection. Other suspects are sent together.
struct SuspectQueue {
    private var together = RequestQueue()
    private var alone = RequestQueue()
    /// Requests to send alone when they return to this queue.
    private var marked: Set<NotificationID> = []
    /// Whether a request that must be alone is on the connection.
    private var isTaken = false

    var isEmpty: Bool { together.isEmpty && alone.isEmpty }

    mutating func append(_ request: OutgoingRequest) {
        if marked.contains(request.id) {
            alone.append(contentsOf: CollectionOfOne(request))
        } else {
            together.append(contentsOf: CollectionOfOne(request))
        }
    }

    /// Marks the requests that were in flight when the connection was lost. Each is then sent alone.
    mutating func died(under ids: [NotificationID]) { marked.formUnion(ids) }

    mutating func forget() {
        if alone.isEmpty { marked = [] }
    }

    /// Removes and returns the requests with matching ids.
    mutating func removeAll(where matches: (NotificationID) -> Bool) -> [NotificationID] {
        together.removeAll(where: matches) + alone.removeAll(where: matches)
    }

    /// Hands requests that may be sent now to the connection. `fill` moves requests from the front of a queue to the
    /// connection until the connection has `most` requests.
    mutating func hand(unanswered: () -> Int, _ fill: (inout RequestQueue, _ most: Int) -> Void) {
        if unanswered() == 0 { isTaken = false }
        guard !isTaken else { return }
        guard !alone.isEmpty else { return fill(&together, .max) }
        guard unanswered() == 0 else { return }
        let first = alone.first.id
        fill(&alone, 1)
        guard unanswered() > 0 else { return }
        isTaken = true
        marked.remove(first)
    }
}

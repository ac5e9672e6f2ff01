internal import PushTransport

/// Requests that no connection can take right now, in order; storage is reused, unless that was much.
struct RequestQueue {
    private var elements: ContiguousArray<OutgoingRequest> = []
    private var head = 0

    /// What a burst took beyond this, some megabytes, is given back.
    private static let keptCapacity = 4_096

    var count: Int { elements.count - head }
    var isEmpty: Bool { head == elements.count }

    /// Only while not empty.
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

    /// Takes out those that `matches` names, in order.
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

internal import PushTransport

/// Suspects that wait for the quarantine connection.
///
/// When the connection died, one of those on it did that, and nobody knows which: over the next one each of them goes
/// alone. Suspects that were not on it go together, as many as the connection takes.
struct SuspectQueue {
    private var together = RequestQueue()
    private var alone = RequestQueue()
    /// Those that are to go alone when they come back.
    private var marked: Set<NotificationID> = []
    /// One that must go alone is on the connection.
    private var isTaken = false

    /// Beyond so many, those that died together are no longer told from the others.
    private static let markedLimit = 100_000

    var isEmpty: Bool { together.isEmpty && alone.isEmpty }

    mutating func append(_ request: OutgoingRequest) {
        if marked.contains(request.id) {
            alone.append(contentsOf: CollectionOfOne(request))
        } else {
            together.append(contentsOf: CollectionOfOne(request))
        }
    }

    /// The connection died under these.
    mutating func died(under ids: [NotificationID]) {
        guard marked.count + ids.count <= Self.markedLimit else { return }
        marked.formUnion(ids)
    }

    mutating func forget() {
        if alone.isEmpty { marked = [] }
    }

    /// Takes out those that `matches` names.
    mutating func removeAll(where matches: (NotificationID) -> Bool) -> [NotificationID] {
        together.removeAll(where: matches) + alone.removeAll(where: matches)
    }

    /// Hands over whoever may go now.
    mutating func fill(_ connection: Connection, headers: inout RequestHeaders) {
        if connection.unanswered == 0 { isTaken = false }
        guard !isTaken else { return }
        guard !alone.isEmpty else { return connection.fill(from: &together, headers: &headers) }
        guard connection.unanswered == 0 else { return }
        let first = alone.first.id
        connection.fill(from: &alone, headers: &headers, most: 1)
        guard connection.unanswered > 0 else { return }
        isTaken = true
        marked.remove(first)
    }
}

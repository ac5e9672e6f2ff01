import PushRecords

/// An answer that waits for its time.
struct DueAnswer: Sendable {
    var dueNs: Int64
    /// The connection's number.
    var connection: Int
    var stream: Int32
    var reply: Reply
}

/// The content of an answer: plain bytes, so that a million can wait without an object each.
struct Reply: Sendable {
    var status: UInt16
    var reason: ReasonCode
    var body: Answer.Body
    var id: NotificationUUID
    /// Whether the simulator made the id, because the client sent none.
    var isOwnID: Bool
    /// The time in a 410, or 0.
    var timestampMs: Int64
    /// Whether the id is `apns-request-id`.
    var isBroadcast = false
}

/// Answers ordered by when they are due; a binary heap.
struct DueQueue {
    private var heap: [DueAnswer] = []

    var count: Int { heap.count }
    var nextDueNs: Int64 { heap.first?.dueNs ?? .max }

    mutating func push(_ answer: DueAnswer) {
        heap.append(answer)
        var index = heap.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            if heap[parent].dueNs <= answer.dueNs { break }
            heap[index] = heap[parent]
            index = parent
        }
        heap[index] = answer
    }

    /// Removes the earliest answer if it is due.
    mutating func popDue(nowNs: Int64) -> DueAnswer? {
        guard let first = heap.first, first.dueNs <= nowNs else { return nil }
        let last = heap.removeLast()
        if heap.isEmpty { return first }
        var index = 0
        while true {
            var child = index * 2 + 1
            if child >= heap.count { break }
            if child + 1 < heap.count, heap[child + 1].dueNs < heap[child].dueNs { child += 1 }
            if last.dueNs <= heap[child].dueNs { break }
            heap[index] = heap[child]
            index = child
        }
        heap[index] = last
        return first
    }
}

/// Reverses a connection's answers: those to requests within 20 ms of the first go out together, last first.
///
/// It gives each answer a delay that puts it before the previous one.
struct AnswerReversal {
    static let spanNs: Int64 = 20_000_000
    private var startNs: Int64?
    private var count: Int64 = 0

    /// Returns the delay of the answer to the request that has just arrived.
    mutating func delayNs(nowNs: Int64) -> Int64 {
        if startNs.map({ nowNs - $0 > Self.spanNs }) ?? true {
            startNs = nowNs
            count = 0
        }
        count += 1
        // After the last request of the span, and before the previous answer.
        return (startNs ?? nowNs) + 2 * Self.spanNs - count - nowNs
    }
}

import PushRecords

/// A delayed answer, with the time at which to send it.
struct DueAnswer: Sendable {
    var dueNs: Int64
    /// The number of the connection on which to send the answer.
    var connection: Int
    var stream: Int32
    var reply: Reply
}

/// The content of an answer: a plain value, so that a queue of a million answers needs no allocation for each answer.
struct Reply: Sendable {
    var status: UInt16
    var reason: ReasonCode
    var body: Answer.Body
    var id: NotificationUUID
    /// Whether the simulator generated the id because the client sent none.
    var isOwnID: Bool
    /// The `timestamp` of an answer with status 410, or 0 for another status.
    var timestampMs: Int64
    /// Whether the answer contains the id as `apns-request-id`.
    var isBroadcast = false
}

/// A priority queue of answers ordered by due time: a binary heap.
struct DueQueue {
    private var heap: [DueAnswer] = []

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

    /// Removes and returns the earliest answer if this answer is due.
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

/// Calculates delays that reverse the order of a connection's answers: requests that arrive within 20 ms of the first
/// one are answered in reverse order.
///
/// Each delay makes the answer due before the answer to the previous request.
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
        // The answer must be due after the last request of the 20 ms interval and before the previous answer.
        return (startNs ?? nowNs) + 2 * Self.spanNs - count - nowNs
    }
}

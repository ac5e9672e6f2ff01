import PushRecords

/// An answer on its way: what to say on which stream of which connection, and when.
struct DueAnswer: Sendable {
    var dueNs: Int64
    /// Its number.
    var connection: Int
    var stream: Int32
    var reply: Reply
}

/// All that an answer is made of; plain bytes, so that a million can wait without an object each.
struct Reply: Sendable {
    var status: UInt16
    var reason: ReasonCode
    var body: Answer.Body
    /// The client sent no id: this one is the simulator's.
    var isOwnID: Bool
    var idHigh: UInt64
    var idLow: UInt64
    /// Of a 410; 0: none.
    var timestampMs: Int64
    /// Its id is `apns-request-id`.
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

    /// The earliest one, if it is due.
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

/// Turns a connection's answers around: those to requests that come within 20 ms of the first go out together, last
/// first.
///
/// A value without a clock: it gives each answer the delay that brings it out in front of the one before it.
struct AnswerReversal {
    static let spanNs: Int64 = 20_000_000
    private var startNs: Int64?
    private var count: Int64 = 0

    /// After how long the answer to the request that has just come is due.
    mutating func delayNs(nowNs: Int64) -> Int64 {
        if startNs.map({ nowNs - $0 > Self.spanNs }) ?? true {
            startNs = nowNs
            count = 0
        }
        count += 1
        // Later than any request of the span comes, and earlier than the answer before it.
        return (startNs ?? nowNs) + 2 * Self.spanNs - count - nowNs
    }
}

import Kafka
import Testing

@testable import Worker

/// The order of refused records, without a topic.
struct RefusedQueueTests {
    private let settings = ClusterSettings(bootstrapServers: "127.0.0.1:1")
    private let topic: ProducerTopic

    init() throws { topic = try Producer(ProducerSettings(cluster: settings)).topic("results") }

    private func record(_ order: UInt64, refusals: Int = 0, isNew: Bool = false, nextTryNs: Int64 = 0)
        -> TargetTopic
        .Refused
    {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        let record = UndeliveredRecord(
            copying: none, none, headers: UnsafeBufferPointer(start: nil, count: 0), to: topic, tag: order,
            code: .invalidRecord)
        var history = TargetTopic.History(form: .single, order: order, isNew: isNew, takenThen: 0)
        history.refusals = refusals
        history.nextTryNs = nextTryNs
        return TargetTopic.Refused(record: record, history: history)
    }

    /// As one that searches all it has for each answer.
    @Test func `Whatever comes and goes, the order is that of production`() throws {
        var queue = RefusedQueue()
        var model: [TargetTopic.Refused] = []
        var random = SystemRandomNumberGenerator()
        var nextOrder: UInt64 = 0
        for _ in 0..<4_000 {
            if Int.random(in: 0..<5, using: &random) < 3 {
                let isLate = nextOrder > 10 && Bool.random(using: &random)
                let order = isLate ? nextOrder - UInt64.random(in: 1...10, using: &random) : nextOrder
                if model.contains(where: { $0.history.order == order }) { continue }
                nextOrder = max(nextOrder, order + 1)
                let refused = record(
                    order, refusals: Int.random(in: 0...3, using: &random), isNew: Bool.random(using: &random),
                    nextTryNs: Int64.random(in: 0...9, using: &random))
                queue.insert(refused)
                model.append(refused)
                model.sort { $0.history.order < $1.history.order }
            } else {
                let which = Int.random(in: 0..<4, using: &random)
                let index =
                    [queue.indexOfFirst, queue.leastRefused, queue.firstUnshown, queue.indexOfEarliest][which]
                guard let index else { continue }
                let removed = queue.remove(at: index)
                model.removeAll { $0.history.order == removed.history.order }
            }
            let unshown = model.filter { $0.history.refusals == 0 && !$0.history.isNew }
            #expect(queue.count == model.count && queue.unshownCount == unshown.count)
            #expect(queue.untriedCount == model.count { $0.history.refusals == 0 })
            #expect(queue.first?.history.order == model.first?.history.order)
            #expect(queue.firstUnshown.map { queue[$0].history.order } == unshown.first?.history.order)
            let least = model.min { $0.history.refusals < $1.history.refusals }
            #expect(queue.leastRefused.map { queue[$0].history.order } == least?.history.order)
            let earliest = model.min { $0.history.nextTryNs < $1.history.nextTryNs }
            #expect(queue.earliest?.history.order == earliest?.history.order)
        }
    }

    /// Each was searched for among those before it once, and moved all behind it: minutes.
    @Test(.timeLimit(.minutes(5)))
    func `Of a hundred thousand that came back together each is tried by itself, at once`() {
        var queue = RefusedQueue()
        let count = 100_000 as UInt64
        for order in 0..<count { queue.insert(record(order)) }
        var expected: UInt64 = 0
        while let index = queue.firstUnshown {
            var refused = queue.remove(at: index)
            #expect(refused.history.order == expected)
            expected += 1
            refused.history.refusals = 1
            queue.insert(refused)
        }
        #expect(expected == count && queue.count == Int(count) && queue.untriedCount == 0)
        #expect(queue.first?.history.order == 0)
    }
}

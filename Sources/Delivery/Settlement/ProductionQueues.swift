/// What waits for its producer: a queue for each topic that records are written to, so that a topic that cannot be
/// written holds up nothing that goes elsewhere.
struct ProductionQueues: ~Copyable {
    private let queues: UnsafeMutablePointer<RingBuffer<Production>>
    private let tiers: Int
    /// By place; all are until said otherwise.
    private var writable: [Bool]

    private static let firstTier = 2

    init(tiers: Int) {
        self.tiers = tiers
        let count = Self.firstTier + tiers
        queues = .allocate(capacity: count)
        for index in 0..<count { (queues + index).initialize(to: RingBuffer(capacity: index == 0 ? 1_024 : 64)) }
        writable = Array(repeating: true, count: count + 1)
    }

    deinit {
        queues.deinitialize(count: Self.firstTier + tiers)
        queues.deallocate()
    }

    /// All that waits, what became void since it was queued included.
    var count: Int {
        var sum = 0
        for index in 0..<Self.firstTier + tiers { sum += queues[index].count }
        return sum
    }

    /// The queue of a target that has one: dead letters have none.
    subscript(target: ProductionTarget) -> RingBuffer<Production> {
        @inline(__always) unsafeAddress { UnsafePointer(queues + index(of: target)) }
        @inline(__always) unsafeMutableAddress { queues + index(of: target) }
    }

    func isWritable(_ target: ProductionTarget) -> Bool { writable[index(of: target)] }

    mutating func setWritable(_ target: ProductionTarget, _ isWritable: Bool) {
        writable[index(of: target)] = isWritable
    }

    /// Of the tiers, in their order.
    var writableTiers: ArraySlice<Bool> { writable[Self.firstTier..<Self.firstTier + tiers] }

    @inline(__always)
    private func index(of target: ProductionTarget) -> Int {
        switch target {
        case .results: return 0
        case .unregistered: return 1
        case .retry(let tier):
            precondition(tier >= 0 && tier < tiers, "there is no such retry tier")
            return Self.firstTier + tier
        case .deadLetters: return Self.firstTier + tiers
        }
    }
}

internal import EventLoop
internal import Synchronization

/// Where the core leaves the newest snapshot and its sign of life for the threads that answer requests. Any thread.
final class StatusBoard: Sendable {
    private let snapshot: Guarded<WorkerSnapshot>
    private let lastTurnNs: Atomic<Int64>

    /// The core is taken for dead when it has not turned for so long.
    static let stallNs: Int64 = 10_000_000_000

    init(_ first: WorkerSnapshot, nowNs: Int64) {
        snapshot = Guarded(first)
        lastTurnNs = Atomic(nowNs)
    }

    var newest: WorkerSnapshot { snapshot.withLock { $0 } }

    func post(_ new: WorkerSnapshot) { snapshot.withLock { $0 = new } }

    /// The core thread turned.
    func turned(nowNs: Int64) { lastTurnNs.store(nowNs, ordering: .relaxed) }

    func isAlive(nowNs: Int64) -> Bool { nowNs - lastTurnNs.load(ordering: .relaxed) <= Self.stallNs }
}

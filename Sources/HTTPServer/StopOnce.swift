import Synchronization

/// Says `true` to the first who asks, on whatever thread.
final class StopOnce: Sendable {
    private let asked = Atomic(false)

    func first() -> Bool { !asked.exchange(true, ordering: .acquiringAndReleasing) }
}

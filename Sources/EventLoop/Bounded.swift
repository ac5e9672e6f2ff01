internal import Glibc
internal import Synchronization

/// What must not hold its caller, however long it takes.
package enum Bounded {
    private final class End: Sendable {
        let hasCome = Atomic(false)
    }

    /// Runs a body on a thread of its own, and waits for its end at most `atMostNs`; false: it goes on by itself, or no
    /// thread could be had for it.
    package static func run(atMostNs: Int64, _ body: @escaping @Sendable () -> Void) -> Bool {
        let end = End()
        let thread = try? startThread("bounded") {
            body()
            end.hasCome.store(true, ordering: .releasing)
        }
        guard let thread else { return false }
        pthread_detach(thread)
        let startNs = LoopTime.read().monotonicNs
        while !end.hasCome.load(ordering: .acquiring) {
            guard LoopTime.read().monotonicNs - startNs < atMostNs else { return false }
            usleep(1_000)
        }
        return true
    }
}

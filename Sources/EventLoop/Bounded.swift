internal import CLinux
internal import Glibc
internal import Synchronization

/// What must not hold its caller, however long it takes.
package enum Bounded {
    private final class Work: Sendable {
        let body: @Sendable () -> Void
        let isDone = Atomic(false)

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }

        func run() {
            unsafe linux_name_thread("bounded")
            body()
            isDone.store(true, ordering: .releasing)
        }
    }

    /// Runs a body on a thread of its own, and waits for its end at most `atMostNs`; false: it goes on by itself, or no
    /// thread could be had for it.
    package static func run(atMostNs: Int64, _ body: @escaping @Sendable () -> Void) -> Bool {
        let work = Work(body)
        var thread = pthread_t()
        let argument = unsafe Unmanaged.passRetained(work)
        let code = unsafe pthread_create(
            &thread, nil,
            { argument in
                unsafe Unmanaged<Work>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, argument.toOpaque())
        guard code == 0 else {
            unsafe argument.release()
            return false
        }
        pthread_detach(thread)
        let startNs = LoopTime.read().monotonicNs
        while !work.isDone.load(ordering: .acquiring) {
            guard LoopTime.read().monotonicNs - startNs < atMostNs else { return false }
            usleep(1_000)
        }
        return true
    }
}

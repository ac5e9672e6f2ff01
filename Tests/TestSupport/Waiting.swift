import Foundation
import Synchronization
package import Testing

/// Tests that wait for something outside (a broker, a process, the clock) rather than compute: each runs on a thread of
/// its own.
///
/// Tests share as many threads as there are cores. One that waits there, and all of ours wait in the kernel, keeps its
/// thread from every other test, and the machine idles.
package struct Waiting: SuiteTrait, TestTrait, TestScoping {
    /// Of the modules' tests. What each has beside it (a client library's threads, mock brokers) computes, too.
    fileprivate static let modules = Waiting(atOnce: 18)

    private let room: Room

    /// - Parameter limit: how many tests of this very trait wait at once.
    package init(atOnce limit: Int) { room = Room(limit) }

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadForEach.shared) {
            // On a thread of its own already: who had a place, and then stood in line for a thread of all tests behind
            // those that compute, would keep others from waiting meanwhile.
            await room.enter()
            defer { room.leave() }
            try await function()
        }
    }

    /// Lets in as many as there may be, and the others in their order.
    private final class Room: Sendable {
        private struct State {
            var free: Int
            var queue: [CheckedContinuation<Void, Never>] = []
        }

        private let state: Mutex<State>

        init(_ limit: Int) { state = Mutex(State(free: limit)) }

        func enter() async {
            await withCheckedContinuation { continuation in
                let isIn = state.withLock { state in
                    if state.free > 0 {
                        state.free -= 1
                        return true
                    }
                    state.queue.append(continuation)
                    return false
                }
                if isIn { continuation.resume() }
            }
        }

        func leave() {
            state.withLock { state -> CheckedContinuation<Void, Never>? in
                if state.queue.isEmpty {
                    state.free += 1
                    return nil
                }
                return state.queue.removeFirst()
            }?.resume()
        }
    }

    /// Runs each piece of a task on a new thread.
    private final class ThreadForEach: TaskExecutor {
        static let shared = ThreadForEach()

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            Thread.detachNewThread { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }
}

extension Trait where Self == Waiting {
    /// The tests wait more than they compute.
    package static var waiting: Self { .modules }
}

import Foundation
package import Testing

/// Asks again and again until something holds; `false` if it does not within the time.
package func waitUntil(
    seconds: Double = ChildProcess.patience, everyMs: UInt32 = 50, _ holds: () throws -> Bool
) rethrows -> Bool {
    let deadline = Date(timeIntervalSinceNow: seconds)
    while try !holds() {
        guard Date() < deadline else { return false }
        usleep(everyMs * 1_000)
    }
    return true
}

/// A trait of tests that wait for a broker, a process or the clock rather than compute: each runs on a thread of its
/// own.
///
/// Tests share as many threads as there are cores, and a test that blocks its thread would keep it from all others.
package struct Waiting: SuiteTrait, TestTrait, TestScoping {
    /// For tests of modules, which also compute: client libraries and mock brokers have threads beside them.
    fileprivate static let modules = Waiting(atOnce: 18)

    private let places: DispatchSemaphore

    /// - Parameter limit: How many tests of this very trait run at once.
    package init(atOnce limit: Int) { places = DispatchSemaphore(value: limit) }

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadForEach.shared) {
            enter()
            defer { places.signal() }
            try await function()
        }
    }

    /// Blocks the test's own thread. Not inline, because `wait` is unavailable in asynchronous functions.
    private func enter() { places.wait() }

    /// Runs each job of a task on a new thread.
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

import Foundation
package import Testing

/// Polls until a condition is true. Returns `false` if it is not true in time.
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

/// A trait for tests that wait for a broker, a process or the clock rather than compute. Each runs on a separate
/// thread.
///
/// Tests share as many threads as there are cores, and a test that blocks its thread would delay all others.
package struct Waiting: SuiteTrait, TestTrait, TestScoping {
    /// The trait for module tests, which also compute, because client libraries and mock brokers have additional
    /// threads.
    fileprivate static let modules = Waiting(atOnce: 18)

    private let places: DispatchSemaphore

    /// - Parameter limit: The maximum number of concurrent tests with this trait value.
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

    /// Blocks the test's thread. A separate function, because `wait` is unavailable in asynchronous functions.
    private func enter() { places.wait() }

    /// An executor that runs each job of a task on a new thread.
    private final class ThreadForEach: TaskExecutor {
        static let shared = ThreadForEach()

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            Thread.detachNewThread { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }
}

extension Trait where Self == Waiting {
    /// The trait for tests that wait more than they compute.
    package static var waiting: Self { .modules }
}

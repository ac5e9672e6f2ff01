import Foundation
import Testing

@testable import EventLoop

@Suite struct SignalTests {
    /// An end-to-end test shows that a second stop signal ends the process.
    @Test func `Signals arrive as events, in order`() throws {
        let loop = try Loop()
        var seen: [Int32] = []
        let signals = try Signals([SIGUSR1, SIGUSR2], stopping: [SIGUSR2], loop: loop) { seen.append($0) }
        // The signals go to one thread, because the other threads of the test runner do not block them.
        for signal in [SIGUSR1, SIGUSR2, SIGUSR1] {
            let count = seen.count
            pthread_kill(signals.thread, signal)
            let deadline = Date(timeIntervalSinceNow: 10)
            while seen.count == count, Date() < deadline { loop.runOnce(timeoutNs: 1_000_000_000) }
        }
        #expect(seen == [SIGUSR1, SIGUSR2, SIGUSR1])
    }
}

import CLinux
import Foundation
import Testing

@testable import Worker

/// What ends a start that does not come on.
struct StartWatchTests {
    /// As where librdkafka waits for a thread of its own: nothing of ours runs then.
    @Test(.timeLimit(.minutes(5))) func `A start that hangs ends the process with a line that says what to do`() async {
        let result = await #expect(processExitsWith: .exitCode(1), observing: [\.standardErrorContent]) {
            StartWatch.run("the Kafka clients", withinSeconds: 1) {
                // A lock that nobody gives back.
                let lock = NSLock()
                lock.lock()
                lock.lock()
            }
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains("the start waits for the Kafka clients for 1 s: give the process more memory"), "\(text)")
    }

    @Test(.timeLimit(.minutes(5))) func `A start that comes on is left alone`() async {
        await #expect(processExitsWith: .exitCode(7)) {
            let value = StartWatch.run("something", withinSeconds: 1) { 7 as Int32 }
            var left: UInt32 = 2
            while left > 0 { left = sleep(left) }
            exit(value)
        }
    }
}

import Foundation
import Testing

@testable import EventLoop

extension Loop {
    func turn(while reading: FileReading) {
        while reading.isBusy { runOnce(timeoutNs: 100_000_000) }
    }
}

@Suite struct FileReadingTests {
    @Test(.timeLimit(.minutes(5)))
    func `A read that hangs blocks no turn, and its result is delivered when it returns`() throws {
        let loop = try Loop()
        let reading = FileReading(loop: loop)
        let gate = DispatchSemaphore(value: 0)
        var results: [Int] = []
        let hasBegun = reading.begin({
            gate.wait()
            return 1
        }) { result in
            loop.assertOnThread()
            results.append(result)
        }
        #expect(hasBegun && reading.isBusy)
        for _ in 0..<3 { loop.runOnce(timeoutNs: 1_000_000) }
        #expect(results.isEmpty)
        let isRefused = !reading.begin({ 2 }, then: { results.append($0) })
        #expect(isRefused, "only one read may be in progress")
        gate.signal()
        loop.turn(while: reading)
        #expect(results == [1])
        // `then` may begin the next read.
        let hasBegunAgain = reading.begin({ 3 }) { result in
            results.append(result)
            _ = reading.begin({ 4 }, then: { results.append($0) })
        }
        #expect(hasBegunAgain)
        loop.turn(while: reading)
        #expect(results == [1, 3, 4])
    }

    @Test(.timeLimit(.minutes(5)))
    func `A watch whose reader hangs continues once the reader returns`() throws {
        let scene = try WatchScene()
        try scene.write("one")
        let loop = scene.loop
        let reading = FileReading(loop: loop)
        let gate = DispatchSemaphore(value: 0)
        let hasBegun = reading.begin({ gate.wait() }, then: {})
        #expect(hasBegun)
        scene.watch([("key", "none")], reading: reading, intervalNs: 1_000_000).check()
        for _ in 0..<3 { loop.runOnce(timeoutNs: 5_000_000) }
        #expect(scene.changes.isEmpty)
        gate.signal()
        while scene.changes.isEmpty { loop.runOnce(timeoutNs: 100_000_000) }
        #expect(scene.changes == [[scene.path("key")]])
    }
}

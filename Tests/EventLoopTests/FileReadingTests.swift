import Foundation
import Testing

@testable import EventLoop

extension FileWatch {
    /// Looks, and waits until that is over.
    func lookNow(_ loop: Loop) {
        look()
        loop.turn(while: reading)
    }
}

extension Loop {
    func turn(while reading: FileReading) {
        while reading.isBusy { runOnce(timeoutNs: 100_000_000) }
    }
}

@Suite struct FileReadingTests {
    private static func file(_ text: String) throws -> String {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("reading-\(UUID().uuidString)").path
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test(.timeLimit(.minutes(5))) func `A body that hangs holds up no turn, and is taken once it comes back`() throws {
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
        #expect(isRefused, "one after the other")
        #expect(reading.underWay?.path == "" && reading.underWay?.sinceNs ?? 0 > 0)
        gate.signal()
        loop.turn(while: reading)
        #expect(results == [1] && reading.underWay == nil)
        // `then` may begin the next.
        let hasBegunAgain = reading.begin({ 3 }) { result in
            results.append(result)
            _ = reading.begin({ 4 }, then: { results.append($0) })
        }
        #expect(hasBegunAgain)
        loop.turn(while: reading)
        #expect(results == [1, 3, 4])
    }

    @Test(.timeLimit(.minutes(5)))
    func `A watch whose reader hangs goes on once that is over, and says which file it looks at`() throws {
        let path = try Self.file("one")
        defer { try? FileManager.default.removeItem(atPath: path) }
        let loop = try Loop()
        let reading = FileReading(loop: loop)
        let gate = DispatchSemaphore(value: 0)
        let hasBegun = reading.begin({ gate.wait() }, then: {})
        #expect(hasBegun)
        var changes: [[String]] = []
        let watch = FileWatch(
            [(path, FileWatch.hash(of: "none".utf8))], loop: loop, reading: reading, intervalNs: 1_000_000
        ) { changes.append($0) }
        watch.look()
        for _ in 0..<3 { loop.runOnce(timeoutNs: 5_000_000) }
        #expect(changes.isEmpty)
        gate.signal()
        while changes.isEmpty { loop.runOnce(timeoutNs: 100_000_000) }
        #expect(changes == [[path]])
    }

    @Test(.timeLimit(.minutes(5))) func `What was seen of a file before it was remembered anew says nothing`() throws {
        let path = try Self.file("one")
        defer { try? FileManager.default.removeItem(atPath: path) }
        let loop = try Loop()
        var changes: [[String]] = []
        let watch = FileWatch([(path, nil)], loop: loop) { changes.append($0) }
        watch.look()
        watch.remember(path, hash: FileWatch.hash(of: "two".utf8))
        loop.turn(while: watch.reading)
        #expect(changes.isEmpty)
        watch.lookNow(loop)
        #expect(changes == [[path]])
    }
}

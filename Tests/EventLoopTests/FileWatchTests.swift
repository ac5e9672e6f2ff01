import Foundation
import TestSupport
import Testing

@testable import EventLoop

/// A temporary folder, a watch of its files, and the changes that the watch reports.
final class WatchScene {
    let loop: Loop
    private let folder: TemporaryFolder
    private(set) var changes: [[String]] = []
    private var watch: FileWatch!

    init() throws {
        loop = try Loop()
        folder = try TemporaryFolder()
    }

    func path(_ name: String) -> String { folder.path(name) }

    func write(_ text: String, _ name: String = "key", options: Data.WritingOptions = []) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path(name)), options: options)
    }

    /// Starts a watch of the files, each with the contents that were read last.
    @discardableResult
    func watch(
        _ files: [(name: String, contents: String?)], reading: BlockingReads? = nil, intervalNs: Int64 = 10_000_000_000
    ) -> FileWatch {
        watch = FileWatch(
            files.map { (path($0.name), $0.contents.map { FileWatch.hash(of: $0.utf8) }) }, loop: loop,
            reading: reading, intervalNs: intervalNs
        ) { [unowned self] in changes.append($0) }
        return watch
    }

    func remember(_ text: String) { watch.remember(path("key"), hash: FileWatch.hash(of: text.utf8)) }

    /// Checks the files once and waits for the result.
    func look() {
        watch.check()
        loop.turn(while: watch.reading)
    }
}

@Suite struct FileWatchTests {
    @Test func `A file that was replaced before its watch started is reported as changed`() throws {
        let scene = try WatchScene()
        try scene.write("two")
        scene.watch([("key", "one")])
        scene.look()
        #expect(scene.changes == [[scene.path("key")]])
        // A file whose contents differ from those remembered is reported again.
        scene.remember("three")
        scene.look()
        #expect(scene.changes.count == 2)
        scene.remember("two")
        scene.look()
        #expect(scene.changes.count == 2)
    }

    @Test func `A check that began before new contents were remembered reports no change`() throws {
        let scene = try WatchScene()
        try scene.write("one")
        let watch = scene.watch([("key", nil)])
        watch.check()
        scene.remember("two")
        scene.loop.turn(while: watch.reading)
        #expect(scene.changes.isEmpty)
        scene.look()
        #expect(scene.changes == [[scene.path("key")]])
    }

    @Test func `A large file is compared by its first bytes`() throws {
        let scene = try WatchScene()
        let text = String(repeating: "abcdefgh", count: FileWatch.hashedLimit / 8 + 1)
        try scene.write(text)
        scene.watch([("key", text)])
        scene.look()
        #expect(scene.changes.isEmpty)
    }

    @Test func `New contents are reported once, and changed metadata never`() throws {
        let scene = try WatchScene()
        let (key, other) = (scene.path("key"), scene.path("other"))
        try scene.write("one")
        scene.watch([("key", "one"), ("other", nil)])
        scene.look()
        #expect(scene.changes.isEmpty)
        // A new inode with the same contents is not a change.
        try scene.write("one", options: .atomic)
        scene.look()
        #expect(scene.changes.isEmpty)
        try scene.write("two", options: .atomic)
        scene.look()
        scene.look()
        #expect(scene.changes == [[key]])
        // A deleted file is not reported. A file that returns with other contents is.
        try FileManager.default.removeItem(atPath: key)
        scene.look()
        #expect(scene.changes.count == 1)
        try scene.write("three")
        try scene.write("appeared", "other")
        scene.look()
        #expect(scene.changes.last == [key, other])
    }

    @Test(.timeLimit(.minutes(5)))
    func `The watch detects a replaced symbolic link without an explicit check`() throws {
        let scene = try WatchScene()
        for (name, text) in [("..1", "one"), ("..2", "two")] {
            try FileManager.default.createDirectory(atPath: scene.path(name), withIntermediateDirectories: true)
            try scene.write(text, "\(name)/key")
        }
        symlink("..1", scene.path("..data"))
        symlink("..2", scene.path("..spare"))
        scene.watch([("..data/key", "one")], intervalNs: 1_000_000)
        rename(scene.path("..spare"), scene.path("..data"))
        while scene.changes.isEmpty { scene.loop.runOnce(timeoutNs: 100_000_000) }
        #expect(scene.changes == [[scene.path("..data/key")]])
    }
}

extension Loop {
    func turn(while reading: BlockingReads) {
        while reading.isBusy { runOnce(timeoutNs: 100_000_000) }
    }
}

@Suite struct BlockingReadsTests {
    @Test(.timeLimit(.minutes(5)))
    func `A read that hangs blocks no turn, and its result is delivered when it returns`() throws {
        let loop = try Loop()
        let reading = BlockingReads(loop: loop)
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
        let reading = BlockingReads(loop: loop)
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

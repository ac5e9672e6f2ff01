import Foundation
import Testing

@testable import EventLoop

@Suite struct SignalTests {
    /// That a second one to stop ends the process shows end to end.
    @Test func `A signal arrives as an event, in the order in which they came`() throws {
        let loop = try Loop()
        var seen: [Int32] = []
        let signals = try Signals([SIGUSR1, SIGUSR2], stopping: [SIGUSR2], loop: loop) { seen.append($0) }
        // To its thread only: the other threads of the test runner do not block them.
        for signal in [SIGUSR1, SIGUSR2, SIGUSR1] {
            let count = seen.count
            pthread_kill(signals.thread, signal)
            let deadline = Date(timeIntervalSinceNow: 10)
            while seen.count == count, Date() < deadline { loop.runOnce(timeoutNs: 1_000_000_000) }
        }
        #expect(seen == [SIGUSR1, SIGUSR2, SIGUSR1])
    }
}

@Suite struct FileWatchTests {
    @Test func `New contents are reported once and metadata never`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("watch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let key = folder.appendingPathComponent("key.p8")
        let other = folder.appendingPathComponent("other")
        try Data("one".utf8).write(to: key)
        let loop = try Loop()
        var changes: [[String]] = []
        let watch = FileWatch(
            [(key.path, FileWatch.hash(of: "one".utf8)), (other.path, nil)], loop: loop
        ) { changes.append($0) }
        watch.lookNow(loop)
        #expect(changes.isEmpty)
        // The same contents in a new file: another inode, no news.
        try Data("one".utf8).write(to: key, options: .atomic)
        watch.lookNow(loop)
        #expect(changes.isEmpty)
        try Data("two".utf8).write(to: key, options: .atomic)
        watch.lookNow(loop)
        watch.lookNow(loop)
        #expect(changes == [[key.path]])
        // Gone is no news; back with other contents is.
        try FileManager.default.removeItem(at: key)
        watch.lookNow(loop)
        #expect(changes.count == 1)
        try Data("three".utf8).write(to: key)
        try Data("appeared".utf8).write(to: other)
        watch.lookNow(loop)
        #expect(changes.last == [key.path, other.path])
    }

    @Test func `A swapped symbolic link is noticed by itself`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("watch-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        for (name, text) in [("..1", "one"), ("..2", "two")] {
            let version = folder.appendingPathComponent(name)
            try FileManager.default.createDirectory(at: version, withIntermediateDirectories: true)
            try Data(text.utf8).write(to: version.appendingPathComponent("key"))
        }
        let link = folder.appendingPathComponent("..data").path
        let spare = folder.appendingPathComponent("..spare").path
        symlink("..1", link)
        symlink("..2", spare)
        let loop = try Loop()
        var changes: [[String]] = []
        let watch = FileWatch(
            [(link + "/key", FileWatch.hash(of: "one".utf8))], loop: loop, intervalNs: 1_000_000
        ) {
            changes.append($0)
            loop.stop()
        }
        rename(spare, link)
        loop.schedule(afterNs: 10_000_000_000) { loop.stop() }
        loop.run()
        #expect(changes == [[link + "/key"]])
        withExtendedLifetime(watch) {}
    }
}

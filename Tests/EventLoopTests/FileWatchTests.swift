import Foundation
import Testing

@testable import EventLoop

@Suite struct FileWatchTests {
    private func folder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("watch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    /// Between reading a file and watching it, it may be replaced.
    @Test func `A file replaced before it is watched is news`() throws {
        let folder = try folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let key = folder.appendingPathComponent("key.p8")
        try Data("one".utf8).write(to: key)
        let loaded = FileWatch.hash(of: try Data(contentsOf: key))
        try Data("two".utf8).write(to: key)
        let loop = try Loop()
        var changes: [[String]] = []
        let watch = FileWatch([(key.path, loaded)], loop: loop) { changes.append($0) }
        watch.lookNow(loop)
        #expect(changes == [[key.path]])
        // It was read when it held something else again, and then put back.
        watch.remember(key.path, hash: FileWatch.hash(of: "three".utf8))
        watch.lookNow(loop)
        #expect(changes.count == 2)
        watch.remember(key.path, hash: FileWatch.hash(of: "two".utf8))
        watch.lookNow(loop)
        #expect(changes.count == 2)
    }

    @Test func `A large file is known by its first bytes`() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("watch-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        let bytes = Data((0...FileWatch.hashedLimit).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        try bytes.write(to: file)
        var changes: [[String]] = []
        let loop = try Loop()
        let watch = FileWatch([(file.path, FileWatch.hash(of: bytes))], loop: loop) { changes.append($0) }
        watch.lookNow(loop)
        #expect(changes.isEmpty)
    }

    @Test func `New contents are reported once and metadata never`() throws {
        let folder = try folder()
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

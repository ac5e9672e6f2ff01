import Foundation
import Testing

@testable import EventLoop

@Suite struct FileWatchBaselineTests {
    /// Between reading a file and watching it, it may be replaced.
    @Test func `A file replaced before it is watched is news`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("watch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
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
}

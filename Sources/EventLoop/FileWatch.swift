internal import Bytes
internal import CLinux
internal import Glibc

/// Tells when files have new contents: stat(2) and, when that differs, a hash of the contents, every ten seconds.
///
/// It follows symbolic links, since Kubernetes replaces mounted secrets by swapping one; inotify would miss that, and
/// network file systems. A file that cannot be read for a while is no news; new contents afterwards are, and so is what
/// is no regular file: it is not opened, since a pipe would be waited for. The files are looked at on a thread of their
/// own (`FileReading`), since a file system may hang; while it does, no file is. Loop's thread.
package final class FileWatch {
    /// More than this of a file is not looked at.
    package static let hashedLimit = 1 << 20

    private var files: [File]
    /// Looks at the files.
    package let reading: FileReading
    private let onChange: ([String]) -> Void
    private let intervalNs: Int64
    private var alarm: Alarm?

    private struct File: Sendable {
        var path: String
        var stamp: Stamp?
        var hash: UInt64?
        /// How often it was remembered: what was seen of it before says nothing after.
        var remembered = 0
    }

    /// Of a file that looks different.
    private struct Seen: Sendable {
        var index: Int
        var remembered: Int
        var stamp: Stamp?
        /// `nil`: it could not be read.
        var hash: UInt64?
    }

    /// What stat(2) says and a change of contents changes.
    private struct Stamp: Equatable, Sendable {
        var device: UInt
        var inode: UInt
        var size: Int
        var isRegular: Bool
        var modifiedNs: Int64
        var changedNs: Int64
    }

    /// Reports, on the loop's thread, the paths of files that hold something else than is remembered of them.
    ///
    /// - Parameter files: each file's path, and the hash of the contents that were taken over from it: of the bytes
    ///   that were read, since a file may be replaced before it is watched. `nil`: whatever it holds is news.
    /// - Parameter reading: looks at the files; what it is at, it ends first. `nil`: one of its own.
    package init(
        _ files: [(path: String, hash: UInt64?)], loop: Loop, reading: FileReading? = nil,
        intervalNs: Int64 = 10_000_000_000, onChange: @escaping ([String]) -> Void
    ) {
        self.reading = reading ?? FileReading(loop: loop)
        self.files = files.map { File(path: $0.path, stamp: nil, hash: $0.hash) }
        self.onChange = onChange
        self.intervalNs = intervalNs
        alarm = Alarm(loop: loop) { [weak self] in self?.look() }
        alarm?.set(afterNs: intervalNs)
    }

    /// Remembers what was taken over from a file, as it was read.
    package func remember(_ path: String, hash: UInt64?) {
        guard let index = files.firstIndex(where: { $0.path == path }) else { return }
        files[index].hash = hash
        // It may hold something else by now: the next look has to see for itself.
        files[index].stamp = nil
        files[index].remembered += 1
    }

    /// Looks now, without waiting for the interval, or soon, where somebody looks already.
    package func look() {
        let files = files
        let hasBegun = reading.begin({ Self.differing(files) }, then: { [weak self] in self?.take($0) })
        alarm?.set(afterNs: hasBegun ? intervalNs : min(intervalNs, Self.againNs))
    }

    private static let againNs: Int64 = 1_000_000_000

    /// The thread's part: those that look different, with what they hold.
    private static func differing(_ files: [File]) -> [Seen] {
        var seen: [Seen] = []
        for (index, file) in files.enumerated() {
            let stamp = stamp(file.path)
            guard stamp != file.stamp else { continue }
            seen.append(
                Seen(
                    index: index, remembered: file.remembered, stamp: stamp,
                    hash: stamp?.isRegular == false ? irregular : hash(file.path)))
        }
        return seen
    }

    private func take(_ seen: [Seen]) {
        var changed: [String] = []
        for one in seen where files[one.index].remembered == one.remembered {
            files[one.index].stamp = one.stamp
            guard let hash = one.hash, hash != files[one.index].hash else { continue }
            files[one.index].hash = hash
            changed.append(files[one.index].path)
        }
        if !changed.isEmpty { onChange(changed) }
    }

    private static func stamp(_ path: String) -> Stamp? {
        unsafe linux_tell_path(path)
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        return Stamp(
            device: UInt(status.st_dev), inode: UInt(status.st_ino), size: Int(status.st_size),
            isRegular: status.st_mode & S_IFMT == S_IFREG,
            modifiedNs: nanoseconds(status.st_mtim), changedNs: nanoseconds(status.st_ctim))
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }

    /// FNV-1a, 64 bits, of at most `hashedLimit` bytes: what a file's contents are remembered by.
    package static func hash(of bytes: some Sequence<UInt8>) -> UInt64 {
        var hash = FNV1a()
        hash.add(bytes.prefix(hashedLimit))
        return hash.value
    }

    /// In the place of a hash; other contents have it once in 2^64.
    private static let irregular: UInt64 = 0

    private static func hash(_ path: String) -> UInt64? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var hash = FNV1a()
        var chunk = [UInt8](repeating: 0, count: 16_384)
        var total = 0
        while total < hashedLimit {
            let limit = min(chunk.count, hashedLimit - total)
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, limit) }
            if count < 0 { return nil }
            if count == 0 { break }
            hash.add(chunk[..<count])
            total += count
        }
        return hash.value
    }
}

internal import Glibc

/// Tells when files have new contents: stat(2) and, when that differs, a hash of the contents, every ten seconds.
///
/// It follows symbolic links, since Kubernetes replaces mounted secrets by swapping one; inotify would miss that, and
/// network file systems. A file that cannot be read for a while is no news; new contents afterwards are. Loop's thread.
package final class FileWatch {
    /// More than this of a file is not looked at.
    package static let hashedLimit = 1 << 20

    private var files: [File]
    private let onChange: ([String]) -> Void
    private let intervalNs: Int64
    private var alarm: Alarm?

    private struct File {
        var path: String
        var stamp: Stamp?
        var hash: UInt64?
    }

    /// What stat(2) says and a change of contents changes.
    private struct Stamp: Equatable {
        var device: UInt
        var inode: UInt
        var size: Int
        var modifiedNs: Int64
        var changedNs: Int64
    }

    /// Remembers the files' contents now and reports, on the loop's thread, the paths of those that have others.
    package init(
        _ paths: [String], loop: Loop, intervalNs: Int64 = 10_000_000_000, onChange: @escaping ([String]) -> Void
    ) {
        files = paths.map { File(path: $0, stamp: Self.stamp($0), hash: Self.hash($0)) }
        self.onChange = onChange
        self.intervalNs = intervalNs
        alarm = Alarm(loop: loop) { [weak self] in self?.look() }
        alarm?.set(afterNs: intervalNs)
    }

    /// Looks now, without waiting for the interval.
    package func look() {
        var changed: [String] = []
        for index in files.indices {
            let stamp = Self.stamp(files[index].path)
            guard stamp != files[index].stamp else { continue }
            files[index].stamp = stamp
            guard let hash = Self.hash(files[index].path), hash != files[index].hash else { continue }
            files[index].hash = hash
            changed.append(files[index].path)
        }
        alarm?.set(afterNs: intervalNs)
        if !changed.isEmpty { onChange(changed) }
    }

    private static func stamp(_ path: String) -> Stamp? {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        return Stamp(
            device: UInt(status.st_dev), inode: UInt(status.st_ino), size: Int(status.st_size),
            modifiedNs: nanoseconds(status.st_mtim), changedNs: nanoseconds(status.st_ctim))
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }

    /// FNV-1a, 64 bits, of at most `hashedLimit` bytes.
    private static func hash(_ path: String) -> UInt64? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        var chunk = [UInt8](repeating: 0, count: 16_384)
        var total = 0
        while total < hashedLimit {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            if count < 0 { return nil }
            if count == 0 { break }
            for byte in chunk[..<count] { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
            total += count
        }
        return hash
    }
}

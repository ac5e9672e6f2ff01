internal import Bytes
internal import CLinux
internal import Glibc

/// Reports when files have new contents. The watch hashes the files every ten seconds on the thread of `BlockingReads`.
/// Use it on the loop's thread only.
///
/// The watch follows symbolic links, because Kubernetes updates mounted secrets by replacing a link. An inotify watch
/// on the file would miss such updates, and changes on network file systems. The watch reports a file with new
/// contents, a path that is no longer a regular file, and with `reportsMissing` a file that can no longer be opened.
package final class FileWatch {
    /// The maximum number of bytes that are hashed, from the beginning of a file.
    static let hashedLimit = 1 << 20

    private var files: [File]
    package let reading: BlockingReads
    private let onChange: ([String]) -> Void
    private let reportsMissing: Bool
    private let slowPath: String?
    private let intervalNs: Int64
    private var alarm: Alarm?

    private struct File: Sendable {
        var path: String
        var hash: UInt64?
        /// The hash that the previous check found.
        var found: UInt64?
        /// The number of calls to `remember` for this file. A hash that was computed before the last call is outdated.
        var remembered = 0
    }

    /// Calls the handler on the loop's thread with the paths of files whose contents differ from the given hash. Pass
    /// the hash of the bytes in use, because the file may have been replaced since they were read. With a hash of
    /// `nil`, any contents are reported.
    ///
    /// - Parameter slowPath: A file that is reported only when two successive checks find the same new contents,
    ///   because a half-written version could look complete.
    package init(
        _ files: [(path: String, hash: UInt64?)], loop: Loop, reading: BlockingReads? = nil,
        reportsMissing: Bool = false, slowPath: String? = nil, intervalNs: Int64 = 10_000_000_000,
        onChange: @escaping ([String]) -> Void
    ) {
        self.reading = reading ?? BlockingReads(loop: loop)
        self.files = files.map { File(path: $0.path, hash: $0.hash) }
        self.onChange = onChange
        self.reportsMissing = reportsMissing
        self.slowPath = slowPath
        self.intervalNs = intervalNs
        alarm = Alarm(loop: loop) { [weak self] in self?.check() }
        alarm?.set(afterNs: intervalNs)
    }

    /// Sets the hash of the bytes that were read from a file and are now in use.
    package func remember(_ path: String, hash: UInt64?) {
        guard let index = files.firstIndex(where: { $0.path == path }) else { return }
        files[index].hash = hash
        files[index].remembered += 1
    }

    /// Starts a comparison of the files now, or tries again within a second if `reading` cannot begin.
    package func check() {
        let files = files
        let hasBegun = reading.begin({ files.map { Self.hash($0.path) } }) { [weak self] in
            self?.compare($0, with: files)
        }
        alarm?.set(afterNs: hasBegun ? intervalNs : min(intervalNs, 1_000_000_000))
    }

    private func compare(_ hashes: [UInt64?], with before: [File]) {
        var changed: [String] = []
        for (index, hash) in hashes.enumerated() where files[index].remembered == before[index].remembered {
            let isSteady = files[index].path != slowPath || hash == files[index].found
            files[index].found = hash
            guard hash != files[index].hash, hash != nil || reportsMissing, isSteady else { continue }
            files[index].hash = hash
            changed.append(files[index].path)
        }
        if !changed.isEmpty { onChange(changed) }
    }

    /// Returns the hash of a file's contents (FNV-1a, 64 bits, of the first `hashedLimit` bytes).
    package static func hash(of bytes: some Sequence<UInt8>) -> UInt64 {
        var hash = FNV1a()
        hash.add(bytes.prefix(hashedLimit))
        return hash.value
    }

    /// Returns the hash of a file, `nil` if it cannot be opened, or 0 if it cannot be read (such as a folder).
    package static func hash(_ path: String) -> UInt64? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var hash = FNV1a()
        var chunk = [UInt8](repeating: 0, count: 16_384)
        var total = 0
        while total < hashedLimit {
            let limit = min(chunk.count, hashedLimit - total)
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, limit) }
            if count < 0 { return 0 }
            if count == 0 { break }
            hash.add(chunk[..<count])
            total += count
        }
        return hash.value
    }
}

/// Runs closures that read regular files or query brokers, one at a time, each on a separate thread, because a file on
/// a network file system may block it forever, and a broker for seconds. While one is blocked, no other can run. Use it
/// on the loop's thread only.
package final class BlockingReads {
    private let loop: Loop
    package private(set) var isBusy = false

    package init(loop: Loop) { self.loop = loop }

    /// Runs `body` on the separate thread, and passes its result to `then` on the loop's thread. Returns `false`, and
    /// calls neither, if another closure is running or no thread could be started.
    package func begin<Value: Sendable>(
        _ body: @escaping @Sendable () -> Value, then: @escaping (Value) -> Void
    ) -> Bool {
        guard !isBusy else { return false }
        let results = Mailbox<Value>(loop: loop) { [weak self] values in
            guard let self else { return }
            isBusy = false
            for value in values { then(value) }
        }
        let run: @Sendable () -> Void = {
            linux_read_regular_files_only(1)
            results.post(body())
        }
        guard let thread = try? startThread("files", run) else { return false }
        pthread_detach(thread)
        isBusy = true
        return true
    }
}

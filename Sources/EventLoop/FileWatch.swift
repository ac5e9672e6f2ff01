internal import Bytes
internal import CLinux
internal import Glibc

/// Reports when files have new contents: their hashes are compared every ten seconds on a thread of `FileReading`.
///
/// It follows symbolic links, since Kubernetes replaces mounted secrets by swapping one; inotify would miss that, and
/// network file systems. A file that cannot be opened for a while is not reported; new contents afterwards are, and so
/// is something that is no regular file. Loop's thread.
package final class FileWatch {
    /// Only so many bytes of a file are compared.
    static let hashedLimit = 1 << 20

    private var files: [File]
    package let reading: FileReading
    private let onChange: ([String]) -> Void
    private let intervalNs: Int64
    private var alarm: Alarm?

    private struct File: Sendable {
        var path: String
        var hash: UInt64?
        /// How often the hash was set by `remember`. A hash that was read before is outdated afterwards.
        var remembered = 0
    }

    /// Reports, on the loop's thread, the paths of files whose contents differ from the given hash, which is that of
    /// the bytes in use (the file may have been replaced since), or `nil` to report any contents.
    package init(
        _ files: [(path: String, hash: UInt64?)], loop: Loop, reading: FileReading? = nil,
        intervalNs: Int64 = 10_000_000_000, onChange: @escaping ([String]) -> Void
    ) {
        self.reading = reading ?? FileReading(loop: loop)
        self.files = files.map { File(path: $0.path, hash: $0.hash) }
        self.onChange = onChange
        self.intervalNs = intervalNs
        alarm = Alarm(loop: loop) { [weak self] in self?.look() }
        alarm?.set(afterNs: intervalNs)
    }

    /// Sets the hash of the bytes that were read from a file and are in use.
    package func remember(_ path: String, hash: UInt64?) {
        guard let index = files.firstIndex(where: { $0.path == path }) else { return }
        files[index].hash = hash
        files[index].remembered += 1
    }

    /// Compares the files now, or within a second if they are being read already.
    package func look() {
        let files = files
        let hasBegun = reading.begin({ files.map { Self.hash($0.path) } }) { [weak self] in
            self?.compare($0, with: files)
        }
        alarm?.set(afterNs: hasBegun ? intervalNs : min(intervalNs, 1_000_000_000))
    }

    private func compare(_ hashes: [UInt64?], with before: [File]) {
        var changed: [String] = []
        for (index, hash) in hashes.enumerated() where files[index].remembered == before[index].remembered {
            guard let hash, hash != files[index].hash else { continue }
            files[index].hash = hash
            changed.append(files[index].path)
        }
        if !changed.isEmpty { onChange(changed) }
    }

    /// Returns the hash by which a file's contents are known (FNV-1a, 64 bits).
    package static func hash(of bytes: some Sequence<UInt8>) -> UInt64 {
        var hash = FNV1a()
        hash.add(bytes.prefix(hashedLimit))
        return hash.value
    }

    /// Returns `nil` if the file cannot be opened, and 0 if it cannot be read (a folder).
    private static func hash(_ path: String) -> UInt64? {
        unsafe linux_tell_path(path)
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

/// Reads regular files on a thread of its own, one body after the other, because a network file system may hang in
/// open(2) or read(2) without any deadline. Such a body keeps its thread. Loop's thread.
package final class FileReading {
    private let loop: Loop
    private var work: Work?
    private var startedNs: Int64 = 0

    /// Shared by the thread and the loop.
    private final class Work: Sendable {
        let path = Guarded("")
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }

        func run() {
            linux_read_regular_files_only(1)
            unsafe linux_tell_paths({ unsafe Work.note($0, $1) }, Unmanaged.passUnretained(self).toOpaque())
            body()
        }

        private static func note(_ work: UnsafeMutableRawPointer?, _ path: UnsafePointer<CChar>?) {
            guard let work = unsafe work, let path = unsafe path else { return }
            let name = unsafe String(cString: path)
            unsafe Unmanaged<Work>.fromOpaque(work).takeUnretainedValue().path.withLock { $0 = name }
        }
    }

    package init(loop: Loop) { self.loop = loop }

    package var isBusy: Bool { work != nil }

    /// The file that is being read (empty before the first), and when the body began (monotonic). `nil` if none runs.
    package var underWay: (path: String, sinceNs: Int64)? {
        work.map { ($0.path.withLock { $0 }, startedNs) }
    }

    /// Runs a body on a thread of its own, and hands its result to `then` on the loop's thread. Returns false, and
    /// calls neither, if another body runs or no thread could be started.
    package func begin<Value: Sendable>(
        _ body: @escaping @Sendable () -> Value, then: @escaping (Value) -> Void
    ) -> Bool {
        guard work == nil else { return false }
        let results = Mailbox<Value>(loop: loop) { [weak self] values in
            guard let self else { return }
            work = nil
            for value in values { then(value) }
        }
        let begun = Work { results.post(body()) }
        guard let thread = try? startThread("files", { begun.run() }) else { return false }
        pthread_detach(thread)
        work = begun
        startedNs = loop.now.monotonicNs
        return true
    }
}

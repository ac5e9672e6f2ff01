internal import CLinux
internal import Glibc

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

import Glibc
import Observability
import Synchronization

/// Where commands print. What cannot be written is told once, and then the command has failed, whatever it did: nobody
/// may take a cut file for a whole one. Who reads a pipe may leave, though (`| head`).
enum Output {
    private static let hasFailed = Atomic(false)

    /// Keeps what the process opens from standing where output goes: a descriptor that came closed (`>&-`) is opened so
    /// that to write there fails as it did. On the main thread, before anything is opened.
    static func keepDescriptors() {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest that is free is taken.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Text on standard output; whether to go on: false where nobody listens any more, or it cannot be written.
    static func print(_ text: String) -> Bool {
        let code = writeAll(text, to: STDOUT_FILENO)
        if code == 0 { return true }
        if code != EPIPE, !hasFailed.exchange(true, ordering: .relaxed) {
            complain("apns-worker: the output cannot be written: \(String(cString: strerror(code)))")
        }
        return false
    }

    /// How the process ends, of how its command did.
    static func ending(_ code: ExitCode) -> ExitCode {
        code == .fine && hasFailed.load(ordering: .relaxed) ? .failed : code
    }
}

/// One line on standard error that says what to do.
func complain(_ line: String) {
    _ = writeAll(namesOnce(line) + "\n", to: STDERR_FILENO)
}

/// Text on standard output; whether to go on (`Output`).
@discardableResult
func say(_ text: String) -> Bool { Output.print(text) }

/// 0, or the error's number.
private func writeAll(_ text: String, to descriptor: Int32) -> Int32 {
    let bytes = Array(text.utf8)
    var written = 0
    while written < bytes.count {
        let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress! + written, $0.count - written) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return count < 0 ? errno : EIO }
        written += count
    }
    return 0
}

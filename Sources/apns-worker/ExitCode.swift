import Glibc
import Observability

/// How the process ends; 64 and 78 as in sysexits.h.
enum ExitCode: Int32 {
    case fine = 0
    case failed = 1
    case wrongUsage = 64
    case wrongConfiguration = 78
}

/// One line on standard error that says what to do.
func complain(_ line: String) {
    writeAll(namesOnce(line) + "\n", to: STDERR_FILENO)
}

/// Text on standard output; whether somebody still listens.
@discardableResult
func say(_ text: String) -> Bool {
    writeAll(text, to: STDOUT_FILENO)
}

@discardableResult
private func writeAll(_ text: String, to descriptor: Int32) -> Bool {
    let bytes = Array(text.utf8)
    var written = 0
    while written < bytes.count {
        let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress! + written, $0.count - written) }
        if count < 0, errno == EINTR { continue }
        // Nobody listens any more: nothing is lost by saying no more.
        guard count > 0 else { return false }
        written += count
    }
    return true
}

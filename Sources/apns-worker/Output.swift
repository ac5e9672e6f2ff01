import Glibc
import Observability
import Synchronization

/// Standard output. A failed write is reported once, and then the command has failed, so that a truncated file is not
/// taken for a complete one. A pipe that its reader closed (`| head`) is no failure.
enum Output {
    private static let hasFailed = Atomic(false)

    /// Opens the standard descriptors that came closed (`>&-`), so that no file of the process takes their place and a
    /// write fails as it did. Call it on the main thread, before anything is opened.
    static func keepDescriptors() {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
            // open(2) takes the lowest free descriptor.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Writes a text; returns false if its reader is gone, or it cannot be written.
    static func print(_ text: String) -> Bool {
        let code = writeAll(text, to: STDOUT_FILENO)
        if code != 0, code != EPIPE, !hasFailed.exchange(true, ordering: .relaxed) {
            complain("apns-worker: the output cannot be written: \(String(cString: strerror(code)))")
        }
        return code == 0
    }

    /// Returns how the process ends after its command ended with this code.
    static func ending(_ code: ExitCode) -> ExitCode {
        code == .fine && hasFailed.load(ordering: .relaxed) ? .failed : code
    }
}

func complain(_ line: String) {
    _ = writeAll(namesOnce(line) + "\n", to: STDERR_FILENO)
}

/// Writes a text on standard output; returns false once there is no use in going on (`Output`).
@discardableResult
func say(_ text: String) -> Bool { Output.print(text) }

/// Returns 0, or the error's number.
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

/// The text with spaces behind it, up to a width.
func padded(_ text: String, to width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
}

/// A word of the command line in quotes, on one line.
func printable(_ word: String) -> String { "\"\(printable(word, limit: 60))\"" }

/// Text of other origin on one line of a terminal: no control characters, at most `limit` characters.
func printable(_ text: String, limit: Int) -> String {
    var line = ""
    for scalar in text.unicodeScalars.prefix(limit) {
        let isControl =
            scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) || [0x2028, 0x2029].contains(scalar.value)
        line.unicodeScalars.append(isControl ? " " : scalar)
    }
    return text.unicodeScalars.count > limit ? line + "…" : line
}

import Configuration
import Glibc
import JSON
import Observability
import PushRecords
import Synchronization

/// Whether a write to standard output failed. The failure is reported once and makes the command fail, so that a
/// truncated file is not mistaken for a complete one. A reader that closes the pipe (`| head`) is not a failure.
private let hasLostOutput = Atomic(false)

/// Opens /dev/null for standard descriptors that were closed at the start (`>&-`), so that no other file gets their
/// numbers. Writes to standard output and error still fail. Call it on the main thread, before any file is opened.
func keepDescriptors() {
    for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
        // open(2) returns the lowest free descriptor, which is the one that was closed.
        _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
}

/// Returns the exit code of the process: the command's exit code, or `failed` if a successful command lost output.
func ending(_ code: ExitCode) -> ExitCode {
    code == .fine && hasLostOutput.load(ordering: .relaxed) ? .failed : code
}

func complain(_ line: String) {
    _ = writeAll(namesOnce(line) + "\n", to: STDERR_FILENO)
}

/// Writes text to standard output. Returns false if the reader has closed the pipe or the write fails.
@discardableResult
func say(_ text: String) -> Bool {
    let code = writeAll(text, to: STDOUT_FILENO)
    if code != 0, code != EPIPE, !hasLostOutput.exchange(true, ordering: .relaxed) {
        complain("apns-worker: the output cannot be written: \(String(cString: strerror(code)))")
    }
    return code == 0
}

/// Writes text to a descriptor. Returns 0 or an errno value.
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

/// Returns a JSON object with the members that `members` writes.
func jsonObject(_ members: (inout JSONWriter) -> Void) -> String {
    var json = JSONWriter()
    json.beginObject()
    members(&json)
    json.endObject()
    return json.text
}

func padded(_ text: String, to width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
}

extension DeliveryResult {
    /// Returns the outcome as one line of text. `target` is the device token or the channel id.
    func line(about target: String?, of request: DeliveryResult.Request?) -> String {
        var words = [Timestamp(wallMs: settledAtMs).text, padded(outcome.rawValue, to: 12)]
        if let status { words.append("\(status)") }
        if let reason { words.append(oneLine(reason.rawValue, limit: 100)) }
        words.append(oneLine(target ?? "-", limit: 200))
        words.append(oneLine(apnsTopic ?? "-", limit: 255))
        if let app { words.append("app=\(oneLine(app, limit: 100))") }
        if let request { words.append("request=\(request)") }
        if let apnsID { words.append("apns-id=\(apnsID)") }
        if let apnsUniqueID { words.append("apns-unique-id=\(oneLine(apnsUniqueID, limit: 100))") }
        if attempts != 1 { words.append("attempts=\(attempts)") }
        if inDoubt > 0 { words.append("in-doubt=\(inDoubt)") }
        if let sentAtMs {
            if RecordTime.checked(requestedAtMs) != RecordTime.unknown {
                words.append("took=\(RecordTime.age(of: requestedAtMs, nowMs: settledAtMs))ms")
            }
            words.append("sent=\(Timestamp(wallMs: sentAtMs).text)")
        }
        if let unregisteredAtMs { words.append("since=\(Timestamp(wallMs: unregisteredAtMs).text)") }
        if let detail { words.append("(\(oneLine(detail, limit: 300)))") }
        return words.joined(separator: " ")
    }

    var line: String { line(about: deviceToken ?? channelID, of: request) }
}

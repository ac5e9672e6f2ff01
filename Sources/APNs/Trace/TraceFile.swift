internal import EventLoop
internal import Glibc
internal import JSON

/// Where connections to APNs keep what passed on them (`--trace`): a file of JSON objects, one a line, each with the
/// time in microseconds since the trace began. Any thread.
///
/// Lines are appended, one write(2) each, up to a limit; then, and when it cannot be written, it says so and ends.
/// Without one, nothing of this is called: connections are dialled by another `ChannelDialer`.
package final class TraceFile: Sendable {
    /// The file's most bytes, those of earlier traces included.
    package static let limit = 16 << 20
    /// For the line that says that it ends.
    private static let lastLineBytes = 256

    private struct State {
        /// -1: it has ended.
        var descriptor: Int32
        var bytes: Int
        var connections = 0
    }

    private let path: String
    private let limit: Int
    private let startNs = LoopTime.read().monotonicNs
    private let state: Guarded<State>
    private let onEnd: @Sendable (String) -> Void

    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// - Parameters:
    ///   - path: made with mode 0600, or a regular file that has room left.
    ///   - command: what traces, for who reads it.
    ///   - onEnd: gets one line when the trace ends before the process does. Called once, on the thread that wrote.
    package init(
        _ path: String, command: String, version: String, limit: Int = TraceFile.limit,
        onEnd: @escaping @Sendable (String) -> Void
    ) throws(Failure) {
        func failure(_ code: Int32) -> Failure { Failure(description: "trace \(path): \(SystemError.text(code))") }
        // Not blocked by a pipe without a reader.
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0o600)
        guard descriptor >= 0 else { throw failure(errno) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            let code = errno
            close(descriptor)
            throw failure(code)
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw Failure(description: "trace \(path): is no regular file")
        }
        guard Int(status.st_size) < limit - 4 * Self.lastLineBytes else {
            close(descriptor)
            throw Failure(description: "trace \(path): is full (\(limit >> 20) MiB); move it away")
        }
        self.path = path
        self.limit = limit
        self.onEnd = onEnd
        state = Guarded(State(descriptor: descriptor, bytes: Int(status.st_size)))
        append("begin") { json in
            json.member("at_ms", LoopTime.read().wallMs)
            json.member("command", command)
            json.member("version", version)
        }
    }

    deinit {
        let descriptor = state.withLock { $0.descriptor }
        if descriptor >= 0 { close(descriptor) }
    }

    /// The number of the next connection, from 1 on.
    func nextConnection() -> Int {
        state.withLock { state in
            state.connections += 1
            return state.connections
        }
    }

    /// Appends a line, unless the trace has ended.
    func append(_ event: StaticString, _ members: (inout JSONWriter) -> Void) {
        var json = line(event)
        members(&json)
        json.endObject()
        json.out.append(byte: 0x0A)
        let bytes = json.bytes
        let end = state.withLock { write(bytes, &$0) }
        if let end { onEnd(end) }
    }

    private func line(_ event: StaticString) -> JSONWriter {
        var json = JSONWriter()
        json.beginObject()
        json.member("us", (LoopTime.read().monotonicNs - startNs) / 1_000)
        json.member("event", event)
        return json
    }

    /// Why it ends with this; `nil`: it goes on, or had ended before.
    private func write(_ bytes: UnsafeRawBufferPointer, _ state: inout State) -> String? {
        guard state.descriptor >= 0 else { return nil }
        guard state.bytes + bytes.count <= limit - Self.lastLineBytes else {
            let reason = "it has reached its limit of \(limit >> 20) MiB"
            var last = line("end")
            last.member("reason", reason)
            last.endObject()
            last.out.append(byte: 0x0A)
            _ = put(last.bytes, state.descriptor)
            return end(reason, &state)
        }
        if let code = put(bytes, state.descriptor) { return end(SystemError.text(code), &state) }
        state.bytes += bytes.count
        return nil
    }

    private func end(_ reason: String, _ state: inout State) -> String {
        close(state.descriptor)
        state.descriptor = -1
        return "trace \(path): ends here: \(reason)"
    }

    /// The error; `nil`: all is written.
    private func put(_ bytes: UnsafeRawBufferPointer, _ descriptor: Int32) -> Int32? {
        var rest = bytes
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return count < 0 ? errno : ENOSPC }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
        return nil
    }
}

/// Whose connections are kept in which file.
package struct Trace: Sendable {
    package var file: TraceFile
    /// The app's name.
    package var app: String

    package init(_ file: TraceFile, app: String) {
        self.file = file
        self.app = app
    }
}

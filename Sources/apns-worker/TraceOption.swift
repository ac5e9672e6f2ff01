import APNs

/// Of `--trace`.
let traceHelp =
    "Keep what passes on the connections to APNs: TLS, HTTP/2 frames, headers and answers, without tokens, credentials and payloads; a JSON object a line, appended up to \(TraceFile.limit >> 20) MiB."

/// The file of `--trace`; `nil` where there is none.
func openTrace(
    _ path: String?, of command: String, onEnd: @escaping @Sendable (String) -> Void
) throws(TraceFile.Failure) -> TraceFile? {
    guard let path else { return nil }
    return try TraceFile(path, command: command, version: version, onEnd: onEnd)
}

/// The same, or the exit after it was said what is wrong with it.
func openTrace(
    _ path: String?, command: String, onEnd: @escaping @Sendable (String) -> Void
) -> Result<TraceFile?, Exit> {
    do throws(TraceFile.Failure) {
        return .success(try openTrace(path, of: command, onEnd: onEnd))
    } catch {
        complain("\(command): \(error)")
        return .failure(Exit(code: .failed))
    }
}

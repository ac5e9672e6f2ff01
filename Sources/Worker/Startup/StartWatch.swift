internal import CLinux

/// Ends a process whose start does not come on. librdkafka waits without limit for a thread of its own that the system
/// had no memory to run; nothing of ours may run by then but a handler of a signal.
enum StartWatch {
    /// Making all clients takes some milliseconds.
    static let limitSeconds: Int32 = 60

    /// Runs what a start consists of. Where that takes longer than it may, a line says what the start waits for, and
    /// the process exits with 1, so that it is started again. One at a time.
    static func run<Result, Failure: Error>(
        _ what: String, withinSeconds seconds: Int32 = limitSeconds, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        linux_end_after(
            seconds, 1,
            "apns-worker run: the start waits for \(what) for \(seconds) s: give the process more memory and room for more "
                + "threads (ulimit -d, -v and -u, the container's memory and pids.max); ending, so that it is started again\n"
        )
        defer { linux_end_after(0, 0, "") }
        return try body()
    }
}

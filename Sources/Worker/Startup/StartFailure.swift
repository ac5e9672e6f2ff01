internal import CLinux
internal import EventLoop
internal import Glibc
internal import Kafka
internal import Observability

/// Why a worker cannot start as it is configured: each line names a thing and says what to do. `run` exits with 78;
/// with 1 where it is not the configuration's fault.
package struct StartFailure: Error, CustomStringConvertible {
    package let lines: [String]
    /// A start at another time may go well: the system had no room for a thread.
    package let isPassing: Bool

    package init(_ lines: [String], isPassing: Bool = false) {
        self.lines = lines.map(namesOnce)
        self.isPassing = isPassing
    }

    package var description: String { lines.joined(separator: "\n") }

    /// What the system or the Kafka library refused. Without room for a thread it says what to do, and another time may
    /// do.
    init(of error: any Error) {
        if let error = error as? SystemError, error.call == "pthread_create", error.code == EAGAIN {
            self.init(["\(error); \(KafkaCode.roomForThreads)"], isPassing: true)
        } else {
            self.init(["\(error)"], isPassing: (error as? KafkaError)?.code == .noResources)
        }
    }
}

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

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

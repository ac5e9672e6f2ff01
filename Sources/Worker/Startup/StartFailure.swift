internal import EventLoop
internal import Glibc
internal import Kafka
internal import Observability

/// Why a worker cannot start: each line names a thing and says what to do. `run` exits with 78, or with 1 where the
/// configuration is not at fault.
package struct StartFailure: Error, CustomStringConvertible {
    package let lines: [String]
    /// Whether a start at another time may succeed: the system had no room for a thread.
    package let isPassing: Bool

    package init(_ lines: [String], isPassing: Bool = false) {
        self.lines = lines.map(namesOnce)
        self.isPassing = isPassing
    }

    package var description: String { lines.joined(separator: "\n") }

    /// An error of the system or the Kafka library.
    init(of error: any Error) {
        if let error = error as? SystemError, error.call == "pthread_create", error.code == EAGAIN {
            self.init(["\(error); \(KafkaCode.roomForThreads)"], isPassing: true)
        } else {
            self.init(["\(error)"], isPassing: (error as? KafkaError)?.code == .noResources)
        }
    }
}

// What waits for other modules to land; this file goes with them.
import Configuration
import Observability

/// Runs the worker until it is told to stop.
func work(_ configuration: WorkerConfiguration, _ logger: Logger) -> ExitCode {
    complain("apns-worker run: the Worker module has not landed")
    return .failed
}

/// Reaches Kafka and every host, and prints what is fine and what is not.
func check(_ loaded: LoadedConfiguration) -> ExitCode {
    complain("apns-worker check: the Worker module has not landed")
    return .failed
}

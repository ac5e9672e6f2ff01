import Configuration
import EventLoop
import Observability
import Worker

/// A worker on a thread of its own.
final class WorkerThread: Sendable {
    private let worker: PushWorker
    private let thread: PlainThread
    private let box: FailureBox

    private final class FailureBox: Sendable {
        let text = Guarded<String?>(nil)
    }

    init(_ configuration: WorkerConfiguration, _ logger: Logger) throws(StartFailure) {
        let worker = try PushWorker(configuration, logger: logger)
        let box = FailureBox()
        self.worker = worker
        self.box = box
        thread = PlainThread("core") {
            do throws(StartFailure) {
                if case .failed(let reason) = try worker.run() { box.text.withLock { $0 = reason } }
            } catch {
                box.text.withLock { $0 = error.description }
            }
        }
    }

    var failure: String? { box.text.withLock { $0 } }
    var progress: WorkerProgress { worker.progress }

    /// Asks it to drain, and waits until it has; to be called once.
    func stop() {
        worker.stop()
        thread.join()
    }
}

import CLinux
import Glibc

/// A thread that runs one function to its end.
struct PlainThread {
    private let thread: pthread_t

    /// `name`: at most 15 bytes are kept, as `top -H` shows it.
    init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        var thread = pthread_t()
        let box = Unmanaged.passRetained(Body(name: name, run: body))
        let code = pthread_create(
            &thread, nil,
            { argument in
                let body = Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue()
                linux_name_thread(body.name)
                body.run()
                return nil
            }, box.toOpaque())
        precondition(code == 0, "the system has no thread left")
        self.thread = thread
    }

    /// Waits for its end; to be called once.
    func join() {
        pthread_join(thread, nil)
    }

    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void

        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }
}

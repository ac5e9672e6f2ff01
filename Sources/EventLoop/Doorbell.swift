internal import CLinux
internal import Glibc

/// An eventfd(2) that other code writes to, such as librdkafka's queues.
package final class Doorbell {
    /// Takes 8 bytes with the number 1 each time. Non-blocking; open as long as the doorbell lives.
    package let descriptor: Int32
    private let loop: Loop
    private var registration: Registration?

    /// - Parameter handler: called on the loop's thread, once for all writes since the last turn.
    package init(loop: Loop, handler: @escaping () -> Void) throws(SystemError) {
        self.loop = loop
        let descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        self.descriptor = descriptor
        guard descriptor >= 0 else { throw SystemError(call: "eventfd", code: errno) }
        registration = try loop.register(descriptor, for: .readable) { _ in
            var count: UInt64 = 0
            // eventfd(2): one read takes all that was added.
            _ = unsafe read(descriptor, &count, 8)
            handler()
        }
    }

    deinit {
        if let registration { loop.unregister(registration) }
        if descriptor >= 0 { close(descriptor) }
    }
}

import CLinux
package import Foundation
import Glibc

/// An eventfd(2) that clients write to when they have events, and that tests wait for.
package final class WakeUp {
    package let descriptor: Int32

    package init() {
        descriptor = eventfd(0, Int32(EFD_NONBLOCK))
        precondition(descriptor >= 0, "no eventfd")
    }

    deinit { close(descriptor) }

    /// Waits for a write and resets the counter. Returns `false` if the deadline passes first.
    package func wait(until deadline: Date) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let ms = max(0, deadline.timeIntervalSinceNow * 1000)
        guard poll(&entry, 1, Int32(ms.rounded(.up))) > 0 else { return false }
        var value: UInt64 = 0
        return read(descriptor, &value, 8) == 8
    }
}

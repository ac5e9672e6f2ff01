import CRdkafka
import Glibc
import Synchronization

/// Where clients end: a thread for each calls rd_kafka_destroy, so that one that never returns holds nobody.
///
/// librdkafka 2.0.2 was seen to wait for ever for a thread of its own, for one after a topic's permission was lost.
package enum ClientReaper {
    private static let hanging = Atomic(0)
    /// How long whoever lets go of a client waits for it: mostly it takes some milliseconds, and what comes next (the
    /// process's end, a test's next broker) may then count on it.
    private static let patienceNs: Int64 = 1_000_000_000

    /// Clients that were let go of and are not gone yet. Any thread.
    package static var unfinished: Int { hanging.load(ordering: .acquiring) }

    /// Destroys a client; returns once it is gone, after a second at the latest. The thread is made here and not by
    /// `EventLoop`, of which this module knows nothing.
    static func destroy(_ client: OpaquePointer) {
        let end = unsafe End(client)
        hanging.wrappingAdd(1, ordering: .acquiringAndReleasing)
        let argument = unsafe Unmanaged.passRetained(end)
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread, nil,
            { argument in
                unsafe Unmanaged<End>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, argument.toOpaque())
        guard code == 0 else {
            // No thread is left to spare: then here, as librdkafka would have it.
            unsafe argument.release()
            return end.run()
        }
        pthread_detach(thread)
        end.wait(atMostNs: patienceNs)
    }

    /// Waits until every client is gone, at most `milliseconds`; false: some are not.
    package static func wait(milliseconds: Int64) -> Bool {
        let deadlineMs = Stopwatch.nowMs + milliseconds
        while unfinished > 0 {
            guard Stopwatch.nowMs < deadlineMs else { return false }
            usleep(5_000)
        }
        return true
    }

    /// The end of one client. Its handle is used once, by `run`: that is what `@unchecked Sendable` stands for.
    @safe private final class End: @unchecked Sendable {
        private let client: OpaquePointer
        private let isGone = Atomic(false)

        init(_ client: OpaquePointer) { unsafe self.client = client }

        func run() {
            unsafe rd_kafka_destroy_flags(client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE)
            isGone.store(true, ordering: .releasing)
            ClientReaper.hanging.wrappingSubtract(1, ordering: .acquiringAndReleasing)
        }

        func wait(atMostNs: Int64) {
            let deadlineMs = Stopwatch.nowMs + atMostNs / 1_000_000
            while !isGone.load(ordering: .acquiring), Stopwatch.nowMs < deadlineMs { usleep(500) }
        }
    }
}

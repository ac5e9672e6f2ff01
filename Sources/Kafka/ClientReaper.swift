import CRdkafka
import Glibc
import Synchronization

/// Destroys clients, each on its own thread, because librdkafka 2.0.2 can wait forever for one of its threads. The wait
/// was observed after a permission on a topic was revoked.
package enum ClientReaper {
    private static let running = Atomic(0)

    package static var unfinished: Int { running.load(ordering: .acquiring) }

    /// Destroys a client. Returns when the client is destroyed, which usually takes milliseconds, or after a second. If
    /// no thread can be started, waits on the calling thread without a limit.
    static func destroy(_ client: OpaquePointer) {
        let before = running.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue
        let body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { client in
            unsafe rd_kafka_destroy_flags(OpaquePointer(client), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE)
            ClientReaper.running.wrappingSubtract(1, ordering: .acquiringAndReleasing)
            return nil
        }
        var thread = pthread_t()
        guard unsafe pthread_create(&thread, nil, body, UnsafeMutableRawPointer(client)) == 0 else {
            _ = unsafe body(UnsafeMutableRawPointer(client))
            return
        }
        pthread_detach(thread)
        wait(milliseconds: 1_000, pauseUs: 500, until: before)
    }

    /// Waits up to `milliseconds` until at most `count` clients remain to be destroyed. Returns `false` if more clients
    /// remain.
    @discardableResult
    package static func wait(milliseconds: Int64, pauseUs: UInt32 = 5_000, until count: Int = 0) -> Bool {
        let deadlineMs = Stopwatch.nowMs + milliseconds
        while unfinished > count {
            guard Stopwatch.nowMs < deadlineMs else { return false }
            usleep(pauseUs)
        }
        return true
    }
}

enum Stopwatch {
    static var nowMs: Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}

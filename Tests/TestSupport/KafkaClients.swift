import CLinux
import CRdkafka
package import Foundation
import Glibc
package import Kafka
import Synchronization

extension Producer {
    /// Serves the producer until nothing is outstanding or `timeoutMs` has passed. Returns the number of outstanding
    /// records.
    @discardableResult
    package func flush(
        timeoutMs: Int64, report: (borrowing DeliveryReport) -> Void, event: (ClientEvent) -> Void
    ) -> Int {
        // rd_kafka_flush would wait for another thread to serve the reports, because they are delivered as events
        // (rdkafka.h).
        let deadline = Date(timeIntervalSinceNow: Double(timeoutMs) / 1_000)
        while outstanding > 0, Date() < deadline { serve(timeoutMs: 10, report: report, event: event) }
        return outstanding
    }

    package func produce(
        to topic: ProducerTopic, partition: Int32 = -1, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer,
        headers: [MessageHeader], timestampMs: Int64 = 0, tag: UInt64
    ) -> KafkaCode {
        headers.withUnsafeBufferPointer {
            produce(
                to: topic, partition: partition, key: key, value: value, headers: $0, timestampMs: timestampMs, tag: tag
            )
        }
    }
}

/// Faults of librdkafka's in-process broker.
extension MockCluster {
    /// Makes the broker answer the next requests of this kind with these errors, one each.
    ///
    /// - Parameter apiKey: The number of the request in the protocol: 0 Produce, 1 Fetch, 8 OffsetCommit, 11 JoinGroup
    ///   …
    package func fail(_ apiKey: Int16, with codes: [KafkaCode]) {
        let list = codes.map { rd_kafka_resp_err_t(rawValue: $0.rawValue) }
        list.withUnsafeBufferPointer {
            rd_kafka_mock_push_request_errors_array(raw, apiKey, $0.count, $0.baseAddress)
        }
    }

    /// Delays each answer by this time from now on.
    package func setRoundTrip(milliseconds: Int) throws {
        try check(rd_kafka_mock_broker_set_rtt(raw, 1, Int32(clamping: milliseconds)))
    }

    /// Takes the broker off the network, or puts it back. Meanwhile a socket keeps its port, because librdkafka ends
    /// the process if another program has the port when the broker returns.
    package func setReachable(_ isReachable: Bool) throws {
        let port = UInt16(bootstrapServers.split(separator: ":").last ?? "") ?? 0
        if isReachable {
            if let kept = Self.kept.withLock({ $0.removeValue(forKey: port) }) { close(kept) }
            return try check(rd_kafka_mock_broker_set_up(raw, 1))
        }
        try check(rd_kafka_mock_broker_set_down(raw, 1))
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var (isReused, address) = (Int32(1), sockaddr_in(port: port, isAny: false))
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isReused, socklen_t(MemoryLayout<Int32>.size))
        _ = address.pass { bind(descriptor, $0, $1.pointee) }
        if let before = Self.kept.withLock({ $0.updateValue(descriptor, forKey: port) }) { close(before) }
    }

    private static let kept = Mutex<[UInt16: Int32]>([:])

    private func check(_ code: rd_kafka_resp_err_t) throws {
        if code != RD_KAFKA_RESP_ERR_NO_ERROR { throw KafkaError(KafkaCode(rawValue: code.rawValue)) }
    }
}

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

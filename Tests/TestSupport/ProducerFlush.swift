import Foundation
package import Kafka

extension Producer {
    /// Serves until nothing is outstanding or `timeoutMs` is over; returns how many records are still outstanding.
    @discardableResult
    package func flush(
        timeoutMs: Int64, report: (borrowing DeliveryReport) -> Void, event: (ClientEvent) -> Void
    ) -> Int {
        // Not rd_kafka_flush: with reports as events it waits for somebody else to serve them (rdkafka.h).
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

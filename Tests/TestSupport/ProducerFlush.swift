import Foundation
package import Kafka

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

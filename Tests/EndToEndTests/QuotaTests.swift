import Foundation
import TestSupport
import Testing

extension EndToEnd.Starts {
    /// What brokers allow a client and no more.
    struct QuotaTests {
        @Test(.needs(.worker, .broker, .python, .curl), .ownBroker, .timeLimit(.minutes(2)))
        func aQuotaThatHoldsTheWorkerBackIsNamed() throws {
            let scene = try Scene("quota", partitions: 1)
            try KafkaBroker.shared?.setQuota("producer_byte_rate", ofClientID: scene.name, bytesPerSecond: 1_000)
            _ = try scene.startSimulator()
            scene.configuration.admin = "127.0.0.1:0"
            scene.configuration.more = "drain: {shutdown: 1s}"
            let worker = try scene.startWorker(kafka: "librdkafka: {client.id: \(scene.name)}")
            let pages = try Pages(of: worker)
            try pages.await("/readyz", within: 60) { $0 == (200, "ready\n") }
            try scene.produce(200, "--plain")
            try pages.await("/status") { answer in
                [
                    "holds this client back for exceeding a quota: Produce", "producer_byte_rate",
                    "client id \(scene.name)",
                ]
                .allSatisfy { answer.1.contains($0) }
            }
            let metrics = try pages.get("/metrics").1
            #expect(metrics.contains("\napns_worker_problems{subject=\"broker \(scene.servers)/1\"} 1\n"), "\(metrics)")
            let seconds = metrics.split(separator: "\n")
                .first { $0.hasPrefix(#"apns_worker_kafka_throttled_seconds_total{request="produce"}"#) }
            #expect(seconds.flatMap { Double($0.split(separator: " ")[1]) } ?? 0 > 0, "\(metrics)")
            try scene.stop(worker)
        }
    }
}

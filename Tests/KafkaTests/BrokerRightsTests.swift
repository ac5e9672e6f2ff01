import Foundation
import Kafka
import TestSupport
import Testing

/// The broker with rights that other tests stand on.
@Suite(.waiting) struct BrokerRightsTests {
    @Test(
        .enabled(if: KafkaBroker.home != nil, "needs KAFKA_HOME, for a broker of its own"), .timeLimit(.minutes(10)))
    func `A right that is denied is missed at once, and a lifted denial is not`() throws {
        let broker = try KafkaBroker(home: try #require(KafkaBroker.home))
        let topic = try broker.newTopic("rights")
        let worker = try Topics(
            ClusterSettings(
                bootstrapServers: #require(broker.protectedServers),
                properties: KafkaProperties(common: KafkaBroker.workerProperties)))
        // `nil`: the broker, which may be loaded, did not answer in time.
        func sees() -> Bool? {
            (try? worker.all(timeoutMs: 10_000)).map { $0[topic]?.code == KafkaCode.none }
        }
        func waitUntil(seen wanted: Bool) throws {
            let deadline = Date(timeIntervalSinceNow: 90)
            while sees() != wanted {
                try #require(Date() < deadline, "seen: \(!wanted)")
                usleep(10_000)
            }
        }
        try waitUntil(seen: true)
        try broker.deny(.describe, .topic(topic))
        try waitUntil(seen: false)
        try broker.lift(.describe, .topic(topic))
        try waitUntil(seen: true)
        broker.freeze()
        // An answer may have been on its way.
        let deadline = Date(timeIntervalSinceNow: 20)
        while (try? worker.all(timeoutMs: 500)) != nil { try #require(Date() < deadline, "frozen, and it answers") }
        broker.unfreeze()
        try waitUntil(seen: true)
        try broker.delete([topic])
        try waitUntil(seen: false)
    }
}

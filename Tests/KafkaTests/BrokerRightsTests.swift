import Foundation
import Kafka
import TestSupport
import Testing

/// The broker with rights that other tests stand on.
@Suite struct BrokerRightsTests {
    @Test(.needsBroker, .timeLimit(.minutes(3)))
    func `A right that is denied is missed at once, and a lifted denial is not`() throws {
        guard let home = ProcessInfo.processInfo.environment["KAFKA_HOME"] else { return }
        let broker = try KafkaBroker(home: home, hasRights: true)
        let topic = try broker.newTopic("rights")
        let worker = try Topics(
            ClusterSettings(
                bootstrapServers: #require(broker.protectedServers),
                properties: KafkaProperties(common: KafkaBroker.workerProperties)))
        func sees() throws -> Bool {
            let found = try worker.all(timeoutMs: 10_000)[topic]
            return found?.code == KafkaCode.none
        }
        func waitUntil(seen wanted: Bool) throws {
            let deadline = Date(timeIntervalSinceNow: 10)
            while try sees() != wanted, Date() < deadline { usleep(10_000) }
            #expect(try sees() == wanted)
        }
        try waitUntil(seen: true)
        try broker.deny(.describe, .topic(topic))
        try waitUntil(seen: false)
        try broker.lift(.describe, .topic(topic))
        try waitUntil(seen: true)
        broker.freeze()
        #expect(throws: KafkaError.self) { try worker.all(timeoutMs: 500) }
        broker.unfreeze()
        try waitUntil(seen: true)
        try broker.delete([topic])
        try waitUntil(seen: false)
    }
}

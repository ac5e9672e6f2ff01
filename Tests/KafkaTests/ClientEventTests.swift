import Foundation
@testable import Kafka
import TestSupport
import Testing

/// What clients say about themselves, in words for people.
struct ClientEventTests {
    @Test func `A mechanism that is not offered is named with those that are, and with its key`() {
        let start = "sasl_plaintext://kafka:9092/bootstrap: "
        let said =
            "\(start)SASL GSSAPI mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported mechanisms: "
        #expect(
            QueueEvent.explained("\(said)PLAIN,SCRAM-SHA-512 (after 3ms in state AUTH_HANDSHAKE)")
                == "\(start)the broker does not offer the SASL mechanism GSSAPI: set sasl.mechanism (kafka.librdkafka) to "
                + "what it offers: PLAIN, SCRAM-SHA-512")
        #expect(QueueEvent.explained("\(said)").hasSuffix("to one that it has enabled (sasl.enabled.mechanisms)"))
        for other in ["", "SASL PLAIN mechanism handshake failed: Broker: Request not valid", "Connection refused"] {
            #expect(QueueEvent.explained(other) == other)
        }
    }

    @Test func `A broker that says nothing is not called an old one`() {
        #expect(
            QueueEvent.explained(
                "b/1: ApiVersionRequest failed: Local: Timed out: probably due to broker version < 0.10 (see "
                    + "api.version.request configuration) (after 10085ms in state APIVERSION_QUERY)")
                == "b/1: ApiVersionRequest failed: Local: Timed out (after 10085ms in state APIVERSION_QUERY)")
    }

    @Test(.timeLimit(.minutes(5))) func `That no broker is connected is no error beside what is wrong with each`()
        throws
    {
        let port = Ports.claim()
        let topics = try Topics(ClusterSettings(bootstrapServers: "127.0.0.1:\(port)"))
        var errors: [KafkaError] = []
        var log: [String] = []
        let deadline = Date(timeIntervalSinceNow: 30)
        while !log.contains("ALLDOWN"), Date() < deadline {
            #expect(throws: KafkaError.self) { try topics.all(timeoutMs: 100) }
            for event in topics.events() {
                switch event {
                case .error(let error): errors.append(error)
                case .log(_, let facility, _): log.append(facility)
                default: break
                }
            }
        }
        #expect(log.contains("ALLDOWN"))
        #expect(!errors.isEmpty && errors.allSatisfy { $0.text.contains("127.0.0.1:\(port)") }, "\(errors)")
    }

    @Test(
        .enabled(if: KafkaBroker.home != nil, "needs KAFKA_HOME, for a broker of its own"), .timeLimit(.minutes(5)))
    func `A broker tells which mechanisms it offers`() throws {
        let broker = try KafkaBroker(home: try #require(KafkaBroker.home))
        let properties = KafkaBroker.workerProperties.map {
            $0.name == "sasl.mechanism" ? KafkaProperty($0.name, "SCRAM-SHA-256") : $0
        }
        let topics = try Topics(
            ClusterSettings(
                bootstrapServers: #require(broker.protectedServers), properties: KafkaProperties(common: properties)))
        #expect(throws: KafkaError.self) { try topics.all(timeoutMs: 3_000) }
        let errors = topics.events().compactMap { if case .error(let error) = $0 { error.text } else { nil } }
        #expect(
            errors.contains {
                $0.hasSuffix(
                    "does not offer the SASL mechanism SCRAM-SHA-256: set sasl.mechanism (kafka.librdkafka) to what it offers: PLAIN"
                )
            }, "\(errors)")
    }
}

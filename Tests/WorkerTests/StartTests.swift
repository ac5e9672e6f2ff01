import Configuration
import Delivery
import Kafka
import PushRecords
import TLS
import Testing

@testable import Worker

/// What keeps a worker from starting, and what the parts below are told.
struct StartTests {
    private func app(_ name: String, key: Secret) -> AppSettings {
        AppSettings(
            name: name, bundleIDs: ["com.example.\(name)"],
            credential: .token(TokenCredential(key: key, keyID: "ABC123DEFG", teamID: "TEAM123456")))
    }

    @Test func `A property that breaks the promise is refused by name`() {
        var configuration = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "kafka:9092"), apps: [])
        configuration.kafka.producerProperties = [UserProperty(name: "acks", value: "1", place: "")]
        let failure = #expect(throws: StartFailure.self) { try configuration.cluster() }
        #expect(failure?.lines.count == 1)
        #expect(failure?.lines.first?.contains("kafka.producer: acks cannot be set") == true)
    }

    @Test func `Each credential that cannot be used has a line that names app and file`() throws {
        let fine = app("fine", key: .text(try SelfSigned.privateKey()))
        var untrusting = app("untrusting", key: .text(try SelfSigned.privateKey()))
        untrusting.caFile = "/nowhere/ca.pem"
        let apps = [
            fine, app("missing", key: .file("/nowhere/key.p8")), app("broken", key: .text("no key")), untrusting,
        ]
        let failure = #expect(throws: StartFailure.self) { try LoadedApp.load(apps) }
        let lines = try #require(failure?.lines)
        #expect(lines.count == 3)
        #expect(lines[0].contains("app missing") && lines[0].contains("/nowhere/key.p8"))
        #expect(lines[1].contains("app broken"))
        #expect(lines[2].contains("app untrusting") && lines[2].contains("/nowhere/ca.pem"))
        #expect(!failure.debugDescription.contains("no key"), "a key's text must not be shown")
    }

    @Test func `The machine is told what the configuration says`() throws {
        var configuration = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "kafka:9092"), apps: [])
        configuration.delivery.ordering = .none
        configuration.delivery.apnsID = .apple
        configuration.delivery.inDoubt = .abandon
        configuration.delivery.maxAge = nil
        configuration.delivery.commitInterval = .milliseconds(35)
        configuration.delivery.verdicts = [.init(rawValue: "Shutdown"): .resend]
        configuration.results.publish = .failures
        configuration.results.copyHeaders = ["tenant"]
        configuration.unregistered.includeBadTokens = true
        configuration.retry.maxAttempts = 2
        let settings = configuration.machineSettings
        #expect(settings.ordering == .none)
        #expect(!settings.derivesIDs)
        #expect(settings.inDoubt == .abandon)
        #expect(settings.maxAgeMs == 0)
        #expect(settings.commitIntervalNs == 35_000_000)
        #expect(settings.verdicts == ["Shutdown": .resend])
        #expect(settings.publishesOnlyFailures)
        #expect(settings.copiedHeaders == ["tenant"])
        #expect(settings.includesBadTokens)
        #expect(settings.maxAttempts == 2)
        #expect(settings.tiers.map(\.delayMs) == [30_000, 900_000, 7_200_000])
    }
}

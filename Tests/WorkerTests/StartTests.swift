import APNs
@testable import Configuration
import Delivery
import EventLoop
import Foundation
import HTTPServer
import Kafka
import PushRecords
import TLS
import TestSupport
import Testing

@testable import Worker

/// Errors that stop a worker's start, and the settings that the worker passes to its parts.
struct StartTests {
    private func app(_ name: String, key: Secret) -> AppSettings { .withToken(name, key: key) }

    private func configuration(_ properties: [(String, String)] = []) -> WorkerConfiguration {
        var configuration = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "kafka:9092"), apps: [])
        configuration.kafka.properties = properties.map {
            UserProperty(name: $0, value: $1, place: "w.yaml:3:5: kafka.librdkafka.\($0)")
        }
        return configuration
    }

    @Test func `A property that would break at-least-once delivery is refused by name`() {
        var configuration = configuration()
        configuration.kafka.producerProperties = [
            UserProperty(name: "acks", value: "1", place: "w.yaml:3:5: kafka.producer.acks")
        ]
        let failure = #expect(throws: StartFailure.self) { try configuration.cluster() }
        #expect(failure?.lines.count == 1)
        #expect(
            failure?.lines.first?.hasPrefix("w.yaml:3:5: kafka.producer.acks: cannot be set: the worker needs acks=all")
                == true)
    }

    @Test(arguments: [
        ("socket.timout.ms", "1", "librdkafka has no such property; did you mean socket.timeout.ms?"),
        ("foo.bar.of.nobody", "1", "librdkafka has no such property"),
        ("socket.timeout.ms", "abc", "expected a number from 10 to 300000"),
        ("security.protocol", "tls", "expected one of plaintext, ssl, sasl_plaintext, sasl_ssl"),
        // An alias. librdkafka's own message uses the other name.
        ("compression.type", "zst", "expected one of none, gzip, snappy, lz4, zstd"),
    ])
    func `A property that librdkafka rejects is reported with its place in the file`(
        name: String, value: String, words: String
    ) {
        let failure = #expect(throws: StartFailure.self) { try configuration([(name, value)]).cluster() }
        #expect(failure?.lines == ["w.yaml:3:5: kafka.librdkafka.\(name): \(words)"])
    }

    @Test(arguments: [
        ("ssl.ca.location", "/nowhere/ca.pem", "/nowhere/ca.pem: cannot be read: No such file or directory"),
        ("ssl.ca.location", "/proc/self/status", "/proc/self/status: cannot be used: "),
        (
            "ssl.keystore.location", "/nowhere/store.p12",
            "`ssl.keystore.password` is mandatory when `ssl.keystore.location` is set"
        ),
    ])
    func `A file that the Kafka client cannot use is reported with its place in the configuration`(
        name: String, value: String, words: String
    ) {
        let configuration = configuration([("security.protocol", "SSL"), (name, value)])
        let failure = #expect(throws: StartFailure.self) {
            try ClusterReadiness(configuration, try configuration.cluster())
        }
        let line = failure?.lines.first ?? ""
        #expect(line.hasPrefix("w.yaml:3:5: kafka.librdkafka.\(name): \(words)"), "\(line)")
    }

    /// The first attempt fails, because librdkafka's in-process brokers create no topics on request.
    @Test func `Topics that an earlier attempt asked the brokers to create do not count as existing at the start`()
        throws
    {
        let cluster = try MockCluster()
        var configuration = configuration()
        configuration.kafka.bootstrapServers = cluster.bootstrapServers
        configuration.kafka.createTopics = KafkaSettings.TopicCreation()
        configuration.kafka.tellsTopicConfigurations = false
        var readiness = try ClusterReadiness(configuration, try configuration.cluster())
        let first = try readiness.attempt(timeoutMs: 5_000)
        if case .waiting(.kafkaUnreachable, _, _) = first {} else { Issue.record("\(first)") }
        for topic in configuration.requestTopics.map(\.name) + configuration.outputTopics.map(\.name) {
            // The brokers may already have created the topic, because a client has asked about it.
            try? cluster.create(topic, partitions: 1)
        }
        let second = try readiness.attempt(timeoutMs: 5_000)
        if case .ready(_, _, let topics, _, _, _) = second { #expect(topics == []) } else { Issue.record("\(second)") }
    }

    @Test(.enabled(if: KafkaLibrary.version < 0x020A_0000, "this librdkafka supports cooperative assignment"))
    func `Cooperative assignment is refused with an older librdkafka`() {
        var configuration = configuration()
        configuration.kafka.assignment = .cooperative
        let failure = #expect(throws: StartFailure.self) { try configuration.cluster() }
        #expect(failure?.lines.first?.hasPrefix("kafka.assignment: cooperative needs librdkafka 2.10.0") == true)
    }

    @Test func `A start that fails for lack of threads counts as temporary and gives advice`() {
        let failure = StartFailure(of: SystemError(call: "pthread_create", code: EAGAIN))
        #expect(failure.isPassing)
        #expect(failure.lines.first?.contains("EAGAIN") == true && failure.lines.first?.contains("pids.max") == true)
        #expect(StartFailure(of: KafkaError(.noResources)).isPassing)
        #expect(!StartFailure(of: SystemError(call: "eventfd", code: EMFILE)).isPassing)
    }

    @Test func `The worker warns when it may need more descriptors than the process may have`() {
        var configuration = WorkerConfiguration(
            kafka: KafkaSettings(bootstrapServers: "kafka-1:9092,kafka-2:9092"), apps: [])
        let none = DescriptorNeed.most(of: configuration)
        #expect(none > 64)
        configuration.apps = (0..<200).map { app("app\($0)", key: .text("")) }
        let most = DescriptorNeed.most(of: configuration)
        // Each app has up to eight connections and one quarantine connection.
        #expect(most == none + 200 * 9)
        #expect(DescriptorNeed.warning(of: configuration, limit: Int64(most)) == nil)
        #expect(DescriptorNeed.warning(of: configuration, limit: .max) == nil)
        let warning = DescriptorNeed.warning(of: configuration, limit: 1_024)
        #expect(warning?.contains("\(most)") == true && warning?.contains("1024") == true)
        configuration.admin.listen = nil
        #expect(DescriptorNeed.most(of: configuration) == most - PageServer.connectionLimit)
    }

    @Test func `A transport gets the configured ping and idle times`() throws {
        var settings = app("shop", key: .text(try SelfSigned.privateKey()))
        settings.connections.ping = .seconds(20)
        settings.connections.idle = .seconds(90)
        let configuration = try LoadedApp(settings).transportConfiguration(1_000)
        #expect(configuration.keepalive.idleNs == 20_000_000_000)
        #expect(configuration.connections.idleNs == 90_000_000_000)
    }

    @Test func `A certificate is loaded from one file, two files or the configuration itself`() throws {
        let issued = try CertificateAuthority().issueClient(bundleID: "com.example.shop", validForDays: 20)
        let folder = try TemporaryFolder()
        let both = try folder.write(issued.certificatePEM + issued.keyPEM, "both.pem")
        let certificate = try folder.write(issued.certificatePEM, "cert.pem")
        let key = try folder.write(issued.keyPEM, "key.pem")
        let forms: [CertificateCredential.Form] = [
            .pem(certificate: .file(both), key: nil), .pem(certificate: .file(certificate), key: .file(key)),
            .pem(certificate: .text(issued.certificatePEM), key: .text(issued.keyPEM)),
            .pem(certificate: .text(issued.certificatePEM + issued.keyPEM), key: nil),
        ]
        for form in forms {
            let app = try LoadedApp(.withCertificate(form))
            #expect(app.signingKey == nil)
            #expect(app.certificate?.userID == "com.example.shop")
        }
    }

    @Test func `Each unusable credential has an error line that names the app and the file`() throws {
        let issued = try CertificateAuthority().issueClient(bundleID: "com.example.shop")
        let folder = try TemporaryFolder()
        let certificate = try folder.write(issued.certificatePEM, "cert.pem")
        var untrusting = app("g", key: .text(try SelfSigned.privateKey()))
        untrusting.authorities = .file("/nowhere/ca.pem")
        let failure = #expect(throws: StartFailure.self) {
            try LoadedApp.load([
                .withCertificate(.pem(certificate: .file(certificate), key: nil), name: "a"),
                .withCertificate(.pkcs12(.file(certificate)), name: "b", passphrase: .text("hunter2")),
                .withCertificate(.pkcs12(.text("hunter2!")), name: "c"),
                .withCertificate(.pkcs12(.file(certificate)), name: "d", passphrase: .file("/nowhere/pass")),
                .withCertificate(.pem(certificate: .text(issued.certificatePEM), key: .text("hunter2")), name: "e"),
                app("f", key: .file("/nowhere/key.p8")), untrusting,
                app("fine", key: .text(try SelfSigned.privateKey())),
            ])
        }
        let starts = [
            "app a: \(certificate): contains no private key, only: CERTIFICATE",
            "app b: \(certificate): is not PKCS#12",
            "app c: certificate.pkcs12: is not PKCS#12",
            "app d: /nowhere/pass: cannot be read: No such file or directory",
            "app e: certificate.key: is not PEM: it has no line -----BEGIN PRIVATE KEY-----", "app f: /nowhere/key.p8",
            "app g: tls: /nowhere/ca.pem",
        ]
        #expect(failure?.lines.count == starts.count)
        for (line, start) in zip(failure?.lines ?? [], starts) { #expect(line.hasPrefix(start)) }
    }

    @Test func `A certificate that is expired, expires soon or is for another app is reported`() throws {
        let authority = try CertificateAuthority()
        func lines(days: Int, for bundleID: String = "com.example.shop") throws -> ([String], String?) {
            let issued = try authority.issueClient(bundleID: bundleID, validForDays: days)
            var settings = AppSettings.withCertificate(
                .pem(certificate: .text(issued.certificatePEM + issued.keyPEM), key: nil))
            settings.authorities = .text(issued.certificatePEM)
            let app = try LoadedApp(settings)
            let nowMs = Int64(Date().timeIntervalSince1970 * 1_000)
            return (app.certificateFaults(nowMs: nowMs), app.certificateWarning(nowMs: nowMs))
        }
        let name = "app shop: the certificate in certificate.pem"
        #expect(try lines(days: 100) == ([], nil))
        // A VoIP certificate of the same app is accepted.
        #expect(try lines(days: 100, for: "com.example.shop.voip") == ([], nil))
        let soon = try lines(days: 30)
        #expect(soon.0.isEmpty && soon.1?.hasPrefix("\(name) expires on 20") == true, "\(soon)")
        #expect(soon.1?.hasSuffix(", in 29 days") == true)
        let expired = try lines(days: -1)
        #expect(expired.1 == nil && expired.0.count == 1)
        #expect(expired.0.first?.hasPrefix("\(name) expired on 20") == true)
        #expect(
            try lines(days: 100, for: "com.example.shopping").0
                == ["\(name) is for com.example.shopping, not for com.example.shop (bundle_ids)"])
    }

    @Test func `An app lists its credential files, and only some changes keep its connections`() {
        var one = app("one", key: .file("/k/a.p8"))
        one.authorities = .file("/ca.pem")
        let two = app("two", key: .file("/k/a.p8"))
        let inline = app("inline", key: .text("pem"))
        var pem = AppSettings.withCertificate(
            .pem(certificate: .file("/c.pem"), key: .file("/k.pem")), passphrase: .file("/pass"))
        var bundle = AppSettings.withCertificate(.pkcs12(.file("/c.p12")), passphrase: .file("/pass"))
        bundle.authorities = .file("/ca.pem")
        pem.verifiesHost = false
        let system = SystemTrust.file
        #expect(
            [one, two, inline, pem, bundle].map(\.credentialFiles) == [
                ["/k/a.p8", "/ca.pem"], ["/k/a.p8", system], [system],
                ["/c.pem", "/k.pem", "/pass"], ["/c.p12", "/pass", "/ca.pem"],
            ])
        #expect(one.connects(like: one) && !one.connects(like: two))
        var slower = one
        slower.rateLimit = 5
        slower.isPaused = true
        #expect(one.connects(like: slower))
        slower.bundleIDs.append("b")
        #expect(slower.connects(like: one))
        #expect(!one.connects(like: slower), "APNs refuses a new bundle id on existing connections")
    }

    @Test func `Apps with the same key share a provider token`() throws {
        let key = Secret.text(try SelfSigned.privateKey())
        let (one, two) = (try LoadedApp(app("one", key: key)), try LoadedApp(app("two", key: key)))
        let other = try LoadedApp(app("other", key: .text(try SelfSigned.privateKey())))
        let tokens = ProviderTokens()
        let token = try #require(tokens.token(of: one))
        #expect(tokens.token(of: two) === token)
        #expect(tokens.token(of: one) === token)
        // Another key has the same key id, as after a replacement of the key file.
        #expect(tokens.token(of: other) !== token)
    }

    @Test func `The machine's settings match the configuration`() throws {
        var configuration = configuration()
        configuration.delivery.ordering = .none
        configuration.delivery.apnsID = .apple
        configuration.delivery.inDoubt = .abandon
        configuration.delivery.maxAge = nil
        configuration.delivery.maxAhead = .seconds(90)
        configuration.delivery.commitInterval = .milliseconds(35)
        configuration.delivery.verdicts = [.init(rawValue: "Shutdown"): .resend]
        configuration.results.publish = .failures
        configuration.results.copyHeaders = ["tenant"]
        configuration.unregistered.includeBadTokens = true
        configuration.retry.maxAttempts = 2
        let settings = configuration.machineSettings
        #expect(settings.ordering == .none && !settings.derivesIDs && settings.inDoubt == .abandon)
        #expect(settings.maxAgeMs == 0 && settings.maxAheadMs == 90_000 && settings.commitIntervalNs == 35_000_000)
        #expect(settings.verdicts == ["Shutdown": .resend] && settings.copiedHeaders == ["tenant"])
        #expect(settings.publishesOnlyFailures && settings.includesBadTokens && settings.maxAttempts == 2)
        #expect(settings.tierDelaysMs == [30_000, 900_000, 7_200_000])
    }

    @Test func `A stop with the default settings ends within Kubernetes' grace period of 30 s`() {
        let afterDrainNs = Shutdown.leaveNs + Shutdown.flushNs + Shutdown.closeNs + Shutdown.clientsNs
        #expect(configuration().drain.shutdown.nanoseconds + afterDrainNs <= 30_000_000_000)
    }
}

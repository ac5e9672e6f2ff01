import APNsSimulator
@testable import Configuration
import Foundation
import PushRecords
import TLS
import Testing

@testable import Worker

/// The lines that `check` and `check --probe` print about an app, against the simulator.
@Suite(.serialized) struct CheckTests {
    /// Makes the simulator reject the probe's token of zeros, as APNs does.
    private static let noDevice = "BadDeviceToken@1"

    /// The lines that `check` prints for one app, and whether the check passed.
    private func check(_ app: AppSettings, probes: Bool = true) -> (lines: [String], isFine: Bool) {
        var lines: [String] = []
        let configuration = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "kafka:9092"), apps: [app])
        let check = ConfigurationCheck(configuration, probesCredentials: probes) { lines.append($0.line) }
        check.check(app)
        return (lines, check.isFine)
    }

    /// A credential whose key the simulator does not know.
    private static func withOtherKey() throws -> AppSettings.Credential {
        let key = Secret.text(try SelfSigned.privateKey())
        return .token(
            TokenCredential(key: key, keyID: SimulatorCredentials.keyID, teamID: SimulatorCredentials.teamID))
    }

    /// librdkafka rejects these values when a client is created, not when the property is set.
    @Test(arguments: [("message.max.bytes", "60000000"), ("fetch.max.bytes", "1000"), ("queuing.strategy", "lifo")])
    func `The check finds a Kafka property that no client of the worker can have`(name: String, value: String) {
        var kafka = KafkaSettings(bootstrapServers: "127.0.0.1:1")
        kafka.properties = [UserProperty(name: name, value: value, place: "kafka.librdkafka.\(name)")]
        var lines: [String] = []
        let check = ConfigurationCheck(WorkerConfiguration(kafka: kafka, apps: [])) { lines.append($0.line) }
        #expect(!check.run())
        #expect(lines.count == 1 && lines[0].hasPrefix("not fine: kafka"), "\(lines)")
        #expect(lines[0].contains("`\(name)`") || lines[0].contains(name), "\(lines)")
    }

    @Test func `The check sends no request without --probe`() throws {
        let scene = try SimulatorScene()
        let answer = check(try scene.tokenApp("shop"), probes: false)
        #expect(answer.isFine)
        let place = "127.0.0.1:\(scene.simulator.port)"
        #expect(
            answer.lines == [
                "fine: app shop: the credential can be used",
                "fine: app shop: \(place) reached at \(place), TLSv1.3, HTTP/2 with 1 stream to begin with",
            ])
        #expect(scene.simulator.books.totals.requests == 0)
    }

    @Test func `The answer BadDeviceToken proves that APNs accepts a credential`() throws {
        let scene = try SimulatorScene { $0.faults = [try! FaultRule(text: Self.noDevice)] }
        for app in [try scene.tokenApp("shop"), try scene.certificateApp("shop")] {
            let answer = check(app)
            #expect(answer.isFine, "\(answer.lines)")
            #expect(
                answer.lines.last
                    == "fine: app shop: the credential is accepted for com.example.app (400 BadDeviceToken)")
        }
        #expect(scene.simulator.books.totals.requests == 2)
    }

    @Test func `The check probes every bundle id over one connection`() throws {
        let scene = try SimulatorScene {
            $0.bundleIDs = ["com.example.app", "com.example.news"]
            $0.faults = [try! FaultRule(text: Self.noDevice)]
        }
        var app = try scene.tokenApp("shop")
        app.bundleIDs = ["com.example.app", "com.example.unknown", "com.example.news"]
        let answer = check(app)
        #expect(!answer.isFine)
        #expect(
            answer.lines.dropFirst(2) == [
                "fine: app shop: the credential is accepted for com.example.app (400 BadDeviceToken)",
                "not fine: app shop: the probe for com.example.unknown was answered with 400 TopicDisallowed: the credential "
                    + "is not valid for com.example.unknown; check the credential's team and the spelling of the bundle id",
                "fine: app shop: the credential is accepted for com.example.news (400 BadDeviceToken)",
            ])
        // One connection tests the handshake, and one sends the probes.
        #expect(scene.simulator.books.totals.connections == 2)
    }

    @Test func `The check probes at most 400 bundle ids, and none after a refused credential`() throws {
        let scene = try SimulatorScene { $0.faults = [try! FaultRule(text: Self.noDevice)] }
        var app = try scene.tokenApp("shop")
        app.bundleIDs = (0..<403).map { "com.example.app\($0)" }
        app.bundleIDs[0] = "com.example.app"
        app.credential = try Self.withOtherKey()
        let refused = check(app)
        #expect(refused.lines.count == 4 && scene.simulator.books.totals.requests == 1, "\(refused.lines)")
        #expect(refused.lines.last == "not fine: app shop: 402 of its bundle ids were not probed")
        app.credential = try scene.tokenApp("shop").credential
        let lines = check(app).lines
        #expect(lines.count == 2 + 400 + 1)
        #expect(lines.last == "warning: app shop: 3 of its bundle ids were not probed (the limit is 400)")
    }

    @Test(arguments: ["goaway@2", "cut-before@2"])
    func `The check opens a new connection when one ends between two answers`(fault: String) throws {
        let scene = try SimulatorScene {
            $0.bundleIDs = ["com.example.app", "com.example.news", "com.example.more"]
            $0.faults = [try! FaultRule(text: fault)]
        }
        var app = try scene.tokenApp("shop")
        app.bundleIDs = ["com.example.app", "com.example.news", "com.example.more"]
        let answer = check(app)
        #expect(answer.isFine, "\(answer.lines)")
        #expect(answer.lines.count == 5)
        #expect(scene.simulator.books.totals.connections >= 3)
    }

    // MARK: Warnings

    private func app(
        _ name: String, _ bundleIDs: [String], keyID: String = "ABC123DEFG",
        _ environment: PushEnvironment = .production
    ) -> AppSettings {
        AppSettings(
            name: name, bundleIDs: bundleIDs,
            credential: .token(TokenCredential(key: .text(""), keyID: keyID, teamID: "TEAM123456")),
            environment: environment)
    }

    @Test func `The check warns once of a key that is used in both environments`() {
        let shop = app("shop", ["a"])
        let dev = app("shop-dev", ["a"], .development)
        #expect(ConfigurationWarnings.ofKeys([shop, app("news", ["b"])]) == [])
        #expect(ConfigurationWarnings.ofKeys([shop, app("dev", ["a"], keyID: "OTHERKEY12", .development)]) == [])
        #expect(
            ConfigurationWarnings.ofKeys([dev, app("news", ["b"], .development), shop]) == [
                "key ABC123DEFG is used in production (app shop) and in development (app shop-dev): if the key is "
                    + "limited to one environment, APNs answers BadEnvironmentKeyIdInToken in the other environment; "
                    + "check with --probe"
            ])
    }

    @Test func `The check warns of a bundle id that is the topic of a push type`() {
        let ids = ["com.example.voip", "com.example.shop", ".voip"]
        #expect(
            ConfigurationWarnings.ofBundleIDs(app("shop", ids)) == [
                "app shop: com.example.voip in bundle_ids is the topic of push type voip: set com.example, which "
                    + "includes this topic; without apns-push-type a request for com.example.voip is an alert, which APNs "
                    + "refuses for this topic"
            ])
        var certificate = app("shop", ["com.example.location-query"])
        certificate.credential = .certificate(CertificateCredential(form: .pkcs12(.file("/c.p12")), passphrase: nil))
        #expect(
            ConfigurationWarnings.ofBundleIDs(certificate) == [
                "app shop: com.example.location-query in bundle_ids is the topic of push type location, which Apple "
                    + "accepts only with a token, but the app has a certificate"
            ])
    }

    @Test func `A simulator that accepts the token of zeros proves a credential`() throws {
        let scene = try SimulatorScene()
        let answer = check(try scene.tokenApp("shop"))
        #expect(answer.isFine)
        #expect(answer.lines.last?.contains("accepted for com.example.app (200 for a token of zeros") == true)
    }

    @Test func `The check prints the cause of each fault`() throws {
        let scene = try SimulatorScene { $0.faults = [try! FaultRule(text: Self.noDevice)] }
        let other = try Self.withOtherKey()
        let faults: [(words: String, edit: (inout AppSettings) -> Void)] = [
            (
                "the probe for com.example.app.voip was answered with 400 InvalidPushType: "
                    + "com.example.app.voip is the topic of push type voip, but the probe is an alert: set com.example.app in bundle_ids",
                { $0.bundleIDs = ["com.example.app.voip"] }
            ),
            (
                "the probe for com.example.app was answered with 403 InvalidProviderToken: key, key_id and team_id do "
                    + "not belong together, the key was revoked, or this machine's clock is fast",
                { $0.credential = other }
            ), ("127.0.0.1:1: Connection refused (ECONNREFUSED)", { $0.port = 1 }),
            (
                "proxy 127.0.0.1:1: Connection refused (ECONNREFUSED)",
                { $0.proxy = ProxySettings(host: "127.0.0.1", port: 1) }
            ),
        ]
        for (words, edit) in faults {
            var app = try scene.tokenApp("shop")
            edit(&app)
            let answer = check(app)
            #expect(!answer.isFine && answer.lines.last == "not fine: app shop: \(words)", "\(answer.lines)")
        }
    }

    @Test(arguments: [("cut-before@1", "no answer"), ("goaway-environment@1", "BadCertificateEnvironment")])
    func `The check reports a connection that ends instead of answering`(fault: String, words: String) throws {
        let scene = try SimulatorScene { $0.faults = [try! FaultRule(text: fault)] }
        let answer = check(try scene.tokenApp("shop"))
        #expect(!answer.isFine)
        #expect(answer.lines.last?.hasPrefix("not fine: app shop: the probe: 127.0.0.1:") == true)
        #expect(answer.lines.last?.contains(words) == true, "\(answer.lines)")
    }

    @Test func `Certificate authorities can be given in the configuration itself`() throws {
        let scene = try SimulatorScene { $0.faults = [try! FaultRule(text: Self.noDevice)] }
        var app = try scene.tokenApp("shop")
        app.authorities = .text(try String(contentsOfFile: #require(app.authorities?.path), encoding: .utf8))
        let answer = check(app)
        #expect(answer.isFine, "\(answer.lines)")
        app.authorities = nil
        #expect(!check(app).isFine, "the system does not trust the simulator")
        app.authorities = .text("no certificate")
        #expect(check(app).lines.contains { $0.hasPrefix("not fine: app shop: tls: ca") }, "\(check(app).lines)")
    }
}

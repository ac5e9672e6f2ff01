@testable import Configuration
import Observability
import PushRecords
import Testing

let minimal = """
    kafka: {bootstrap_servers: "localhost:9092"}
    apps:
      - name: shop
        bundle_ids: [com.example.shop]
        token: {key_file: key.p8, key_id: ABC123DEFG, team_id: TEAM123456}

    """

func load(_ text: String, path: String = "w.yaml", _ environment: [String: String] = [:]) throws(ConfigurationError)
    -> LoadedConfiguration
{
    try WorkerConfiguration.load(Array(text.utf8), path: path) { environment[$0] }
}

/// Returns the lines of the error for a configuration text, or an empty array if the text is valid.
func errors(_ text: String, path: String = "w.yaml", _ environment: [String: String] = [:]) -> [String] {
    do throws(ConfigurationError) {
        _ = try load(text, path: path, environment)
        return []
    } catch {
        return error.lines
    }
}

@Suite struct LoadingTests {
    @Test func `Every key is read`() throws {
        let it = try load(
            """
            kafka:
              bootstrap_servers: "a:9092,[::1]:9093,SSL://b:9094"
              group_id: g
              group_instance_id: "${HOSTNAME}"
              session_timeout: 20s
              assignment: cooperative
              create_topics: {partitions: 3, replication_factor: 1}
              librdkafka: {security.protocol: SASL_SSL, retries: 7}
              consumer: {fetch.max.bytes: 1000}
              producer: {compression.type: lz4}
            requests:
              topics: [a, {name: b, weight: 10, app: two}, "^c\\\\..*$"]
            results: {topic: r, publish: failures, copy_headers: [x-campaign, x-user]}
            unregistered: {topic: u, include_bad_tokens: true}
            dead_letters: {topic: d}
            retry: {tiers: {2h: t.2h, 1s: t.1s, 90m: other}, max_attempts: 9}
            delivery:
              start: latest
              ordering: none
              apns_id: apple
              response_timeout: 1500ms
              in_doubt: abandon
              resend_max: 2
              max_age: 0
              max_ahead: 30m
              max_open: 100
              max_open_bytes: 1GiB
              latency: low
              commit_interval: 1s
              verdicts: {Shutdown: resend, BadDeviceToken: unregister, TooMuchOfAll: credential_fault}
              verdicts_unsafe: {ExpiredToken: retry}
            apps:
              - name: one
                transport: http2
                bundle_ids: [com.example.a, com.example.b]
                environment: development
                token: {key: "pem", key_id: ABC123DEFG, team_id: TEAM123456}
                connections: {min: 2, max: 3, ping: 30s, idle: 2h, max_age: 1h}
                index_authorization: false
                environment_guard: hold
                other_environment: two
                rate_limit: 2500
                paused: true
                proxy: http://[::1]:3128/
              - name: two
                bundle_ids: [com.example.a, com.example.b]
                host: 127.0.0.1
                port: 2197
                token: {key_file: /k.p8, key_id: ABC123DEFG, team_id: TEAM123456}
                tls: {ca_file: ca.pem, verify: false}
            drain: {rebalance: 5s, shutdown: 250ms}
            admin: {listen: "[::1]:0"}
            log: {level: warning, format: json, parts: {kafka: debug}}
            """, path: "/etc/w/w.yaml", ["HOSTNAME": "pod-7"])
        let c = it.configuration
        #expect(c.kafka.bootstrapServers == "a:9092,[::1]:9093,SSL://b:9094")
        #expect(c.kafka.groupID == "g" && c.kafka.groupInstanceID == "pod-7")
        #expect(c.kafka.sessionTimeout == .seconds(20) && c.kafka.assignment == .cooperative)
        #expect(c.kafka.createTopics?.partitions == 3 && c.kafka.createTopics?.replicationFactor == 1)
        #expect(c.kafka.properties.map(\.name) == ["security.protocol", "retries"])
        #expect(c.kafka.properties.map(\.value) == ["SASL_SSL", "7"])
        #expect(c.kafka.properties[1].place == "/etc/w/w.yaml:8:54: kafka.librdkafka.retries")
        #expect(c.kafka.place(ofProperty: "compression.type") == "/etc/w/w.yaml:10:32: kafka.producer.compression.type")
        #expect(c.kafka.place(ofProperty: "acks") == nil)
        #expect(c.kafka.consumerProperties.map(\.value) == ["1000"])
        #expect(c.kafka.producerProperties.map(\.value) == ["lz4"])
        #expect(
            c.requestTopics == [
                RequestTopic(name: "a"), RequestTopic(name: "b", weight: 10, app: "two"),
                RequestTopic(name: "^c\\..*$"),
            ])
        #expect(c.requestTopics.map(\.isPattern) == [false, false, true])
        #expect(RequestTopic(name: "^[^a].*").matching(["a", "b", "__consumer_offsets", "__mine"]) == ["b", "__mine"])
        #expect(c.results.publish == .failures)
        #expect(c.results.copyHeaders == ["x-campaign", "x-user"])
        #expect(c.unregistered.includeBadTokens)
        #expect(c.outputTopics.map(\.name) == ["r", "u", "d", "t.1s", "other", "t.2h"])
        #expect(c.retry.tiers.map(\.delay) == [.seconds(1), .seconds(5_400), .seconds(7_200)])
        #expect(c.retry.maxAttempts == 9)
        #expect(c.delivery.start == .latest && c.delivery.ordering == .none && c.delivery.apnsID == .apple)
        #expect(c.delivery.responseTimeout.nanoseconds == 1_500_000_000)
        #expect(c.delivery.inDoubt == .abandon && c.delivery.resendMax == 2)
        #expect(c.delivery.maxAge == nil && c.delivery.maxAhead == .seconds(1_800))
        #expect(c.delivery.maxOpen == 100 && c.delivery.maxOpenBytes == 1 << 30)
        #expect(c.delivery.latency == .low && c.delivery.commitInterval == .seconds(1))
        #expect(
            c.delivery.verdicts == [
                Reason(rawValue: "Shutdown"): .resend, Reason(rawValue: "BadDeviceToken"): .unregister,
                Reason(rawValue: "TooMuchOfAll"): .credentialFault, Reason(rawValue: "ExpiredToken"): .retry,
            ])
        #expect(c.apps.map(\.name) == ["one", "two"])
        #expect(c.apps[0].bundleIDs == ["com.example.a", "com.example.b"])
        #expect(c.apps[0].environment == .development)
        #expect(c.apps[0].host == "api.development.push.apple.com")
        #expect(c.apps[0].manageHost == "api-manage-broadcast.sandbox.push.apple.com" && c.apps[0].managePort == 2_195)
        #expect(c.apps[0].connections.min == 2 && c.apps[0].connections.max == 3)
        #expect(c.apps[0].connections.ping == .seconds(30) && c.apps[0].connections.idle == .seconds(7_200))
        #expect(c.apps[0].connections.maxAge == .seconds(3_600))
        #expect(!c.apps[0].indexesAuthorization)
        #expect(c.apps[0].credential == .token(.init(key: .text("pem"), keyID: "ABC123DEFG", teamID: "TEAM123456")))
        #expect(c.apps[0].environmentGuard == .hold)
        #expect(c.apps[0].otherEnvironment == "two" && c.apps[1].otherEnvironment == nil)
        #expect(c.apps[0].rateLimit == 2_500 && c.apps[0].isPaused)
        #expect(c.apps[0].proxy == ProxySettings(host: "::1", port: 3_128))
        #expect(c.admin.listen == NetworkAddress(host: "::1", port: 0))
        #expect(c.admin.listen?.description == "[::1]:0")
        #expect(c.apps[1].host == "127.0.0.1" && c.apps[1].port == 2_197)
        #expect(c.apps[1].manageHost == "api-manage-broadcast.push.apple.com" && c.apps[1].managePort == 2_196)
        #expect(c.apps[1].authorities == .file("/etc/w/ca.pem"))
        #expect(c.apps[1].credential == .token(.init(key: .file("/k.p8"), keyID: "ABC123DEFG", teamID: "TEAM123456")))
        #expect(!c.apps[1].verifiesHost)
        #expect(c.drain.rebalance == .seconds(5) && c.drain.shutdown == .milliseconds(250))
        #expect(c.log.format == .json)
        #expect(c.log.levels == LevelTable(.warning, parts: [.kafka: .debug]))
        #expect(
            it.warnings == [
                "/etc/w/w.yaml:50:36: apps[1].tls.verify: while it is false, any server that answers for 127.0.0.1 can receive this app's notifications"
            ])
    }

    /// Requests that name no app go to the first app, and without `other_environment` it does not forward them. If each
    /// app names the other, the order does not matter.
    @Test(arguments: [false, true])
    func `A first app without other_environment causes a warning if a later app forwards to it`(namesThis: Bool) throws
    {
        let token = "token: {key: pem, key_id: ABC123DEFG, team_id: TEAM123456}"
        let more = namesThis ? "other_environment: shop, " : ""
        let it = try load(
            """
            kafka: {bootstrap_servers: a}
            apps:
              - {name: dev, bundle_ids: [a], environment: development, \(more)\(token)}
              - {name: shop, bundle_ids: [a], other_environment: dev, \(token)}
            """)
        #expect(it.configuration.apps.map(\.otherEnvironment) == [namesThis ? "shop" : nil, "dev"])
        let warning =
            "w.yaml:4:54: apps[1].other_environment: requests that name no app go to \"dev\", which is listed "
            + "first and has no other_environment; list this app first"
        #expect(it.warnings.map { "\($0)" } == (namesThis ? [] : [warning]))
    }

    @Test(arguments: [
        ("127.0.0.1:9464", "127.0.0.1:9464"), ("localhost:1", "localhost:1"), ("\"[::1]:9464\"", "[::1]:9464"),
        ("off", nil),
    ])
    func `The admin pages listen at the configured address`(text: String, listen: String?) throws {
        let admin = try load(minimal + "admin: {listen: \(text)}\n").configuration.admin
        #expect(admin.listen?.description == listen)
    }

    @Test(arguments: [
        ("{file: c.pem}", CertificateCredential(form: .pem(certificate: .file("/w/c.pem"), key: nil))),
        (
            "{file: c.pem, key_file: k.pem, passphrase_file: p}",
            CertificateCredential(
                form: .pem(certificate: .file("/w/c.pem"), key: .file("/w/k.pem")), passphrase: .file("/w/p"))
        ),
        (
            "{pem: \"${PEM}\", key: k, passphrase: p}",
            CertificateCredential(form: .pem(certificate: .text("two\nlines"), key: .text("k")), passphrase: .text("p"))
        ),
        ("{pkcs12_file: /a.p12}", CertificateCredential(form: .pkcs12(.file("/a.p12")))),
        ("{pkcs12: MIIC, passphrase: p}", CertificateCredential(form: .pkcs12(.text("MIIC")), passphrase: .text("p"))),
    ])
    func `A certificate is a file or inline text`(text: String, expected: CertificateCredential) throws {
        let token = "token: {key_file: key.p8, key_id: ABC123DEFG, team_id: TEAM123456}"
        let it = try load(
            minimal.replacing(token, with: "certificate: \(text)"), path: "/w/w.yaml", ["PEM": "two\nlines"])
        #expect(it.configuration.apps[0].credential == .certificate(expected))
    }

    @Test(arguments: [
        ("http://proxy:3128", ProxySettings(host: "proxy", port: 3_128)),
        ("HTTP://10.0.0.1:80/", ProxySettings(host: "10.0.0.1", port: 80)),
        (
            "http://user:p%40ss%3Aword@proxy:3128",
            ProxySettings(host: "proxy", port: 3_128, credentials: .text("user:p@ss:word"))
        ),
        ("http://u:@proxy:3128", ProxySettings(host: "proxy", port: 3_128, credentials: .text("u:"))),
        ("http://u@proxy:3128", nil), ("http://u:%0d%0a@proxy:3128", nil), ("proxy:3128", nil), ("http://:3128", nil),
        ("http://proxy:3128/path", nil), ("socks5://proxy:1080", nil), ("http://u:%ff@proxy:1", nil),
    ])
    func `A proxy is an HTTP URL`(url: String, expected: ProxySettings?) {
        #expect(ProxySettings(url: url) == expected)
    }

    /// The value `probe` and inline PEM text are not paths.
    @Test func `Paths in librdkafka properties are relative to the configuration file`() throws {
        let properties =
            "{ssl.ca.location: ca.pem, ssl.key.location: /k.pem, ssl.certificate.pem: c, ssl.crl.location: probe}"
        let yaml = minimal.replacing("\"localhost:9092\"", with: "localhost, librdkafka: \(properties)")
        let found = try load(yaml, path: "/etc/w/w.yaml").configuration.kafka.properties
        #expect(found.map(\.value) == ["/etc/w/ca.pem", "/k.pem", "c", "probe"])
        #expect(try load(yaml).configuration.kafka.properties[0].value == "ca.pem")
    }

    @Test func `Consistent session, poll and drain times are accepted`() throws {
        for (kafka, drain) in [
            ("session_timeout: 1s", "295s"),
            ("librdkafka: {max.poll.interval.ms: 3605000}", "1h"),
            ("consumer: {max.poll.interval.ms: none}", "30s"),
        ] {
            let text = """
                kafka: {bootstrap_servers: a, \(kafka)}
                drain: {rebalance: \(drain)}
                apps: [{name: a, bundle_ids: [b], token: {key: k, key_id: ABC123DEFG, team_id: TEAM123456}}]
                """
            _ = try load(text)
        }
    }
}

/// `binary.feedback` of an app.
@Suite struct FeedbackSettingsTests {
    /// Returns a file with one app of the binary protocol that has the given keys in `binary`.
    private func file(_ keys: String) -> String {
        """
        kafka: {bootstrap_servers: "localhost:9092"}
        apps:
          - name: shop
            bundle_ids: [com.example.shop]
            transport: binary
            host: gateway.example
            certificate: {file: cert.pem}
            binary: {\(keys)}
        """
    }

    /// The default port is Apple's, and the default interval is one hour.
    @Test(
        arguments: [
            ("", nil), ("format: simple", nil), ("feedback: {host: f}", ("f", 2_196, 3_600)),
            ("feedback: {host: f, interval: 1s}", ("f", 2_196, 1)),
            ("feedback: {host: f, interval: 0}", ("f", 2_196, 0)),
            ("feedback: {host: \"::1\", port: 65535, interval: 168h}", ("::1", 65_535, 604_800)),
            ("feedback: {host: f, interval: 90m}", ("f", 2_196, 5_400)),
        ] as [(String, (host: String, port: Int, seconds: Int)?)])
    func `The feedback settings are read, with defaults for the port and the interval`(
        keys: String, expected: (host: String, port: Int, seconds: Int)?
    ) throws {
        let feedback = try #require(try load(file(keys)).configuration.apps.first?.binary).feedback
        #expect(feedback?.host == expected?.host && feedback?.interval == expected.map { .seconds($0.seconds) })
        #expect(feedback.map { Int($0.port) } == expected?.port)
    }

    @Test(
        arguments: Wrong.table(
            #"""
            feedback: {<|port: 1>}
                8:24: apps[0].binary.feedback.host: is missing
            feedback: {host: a, prot: 1}
                8:34: apps[0].binary.feedback.prot: unknown key; did you mean port?
            feedback: {host: a, port: 0}
                8:40: apps[0].binary.feedback.port: expected a whole number from 1 to 65535, found "0"
            feedback: {host: a, interval: <999ms|169h>}
                8:44: apps[0].binary.feedback.interval: expected a duration (ms, s, m or h) from 1s to 168h, or 0, found
                "<>"
            """#))
    func `Each error in the feedback settings is reported with its line and column`(wrong: Wrong) {
        #expect(errors(file(wrong.text)) == [wrong.error])
    }
}

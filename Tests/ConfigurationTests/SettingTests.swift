import Testing
import YAML

@testable import Configuration

/// The settings as `/configuration` and `check --diff` show them.
@Suite struct SettingTests {
    private static let token = "token: {key_file: keys/a.p8, key_id: ABC123DEFG, team_id: TEAM123456}"

    private func settings(_ text: String) throws -> [String: Setting] {
        try load(text, path: "/etc/w/w.yaml", ["SECRET": "hunter2"]).configuration.settings
    }

    /// Returns the paths of a document's scalars and lists, with the names of apps.
    private func paths(_ node: Node, _ path: String = "") -> [String] {
        switch node.content {
        case .mapping(let entries): entries.flatMap { paths($0.value, path.isEmpty ? $0.name : "\(path).\($0.name)") }
        case .sequence(let items) where path == "apps": items.flatMap { paths($0, "apps[\(name(of: $0))]") }
        case .sequence, .scalar: [path]
        }
    }

    private func name(of app: Node) -> String {
        guard case .mapping(let entries) = app.content, let entry = entries.first(where: { $0.name == "name" }),
            case .scalar(let name, _) = entry.value.content
        else { return "" }
        return name
    }

    @Test func `Every key of the reference's second example is a setting`() throws {
        let block = try #require(ReadmeTests.blocks().last)
        let environment = ["HOSTNAME": "worker-0", "P12_PASS": "a", "KAFKA_PASSWORD": "b"]
        let settings = try load(block, environment).configuration.settings
        let paths = paths(try #require(Document(utf8: Array(block.utf8)).root))
        #expect(paths.count > 40)
        for path in paths {
            // The text of a mapping such as `create_topics` includes its keys.
            #expect(settings.keys.contains { path == $0 || path.hasPrefix("\($0).") }, "\(path)")
        }
        #expect(settings.count { $0.key.hasPrefix("apps[kiosk].") } > 30, "with defaults")
    }

    /// Files are named as they are written, so that the folder of the configuration makes no difference.
    @Test func `Settings have no secrets`() throws {
        let settings = try settings(
            """
            kafka:
              bootstrap_servers: kafka:9093
              oauth: {command: print-token hunter2}
              librdkafka:
                {security.protocol: SASL_SSL, sasl.password: "${SECRET}", ssl.ca.location: ca.pem, SASL.PASSWORD: hunter2,
                enable.ssl.certificate.verification: false}
              consumer: {sasl.jaas.config: hunter2, ssl.key.password: hunter2, fetch.max.bytes: 1000}
              producer: {ssl.key.pem: hunter2, https.proxy.password: hunter2, oauth.secret: hunter2}
            requests: {topics: [a, {name: b, weight: 2, app: shop}]}
            admin: {listen: off}
            apps:
              - {name: shop, bundle_ids: [a], \(Self.token), proxy: "http://hunter2:hunter2@proxy:1", tls: {ca: hunter2}}
              - name: web
                bundle_ids: [b, c]
                certificate: {pem: hunter2, key: hunter2, passphrase: hunter2}
                proxy: http://[::1]:3128/
              - {name: inline, bundle_ids: [d], token: {key: hunter2, key_id: ABC123DEFG, team_id: TEAM123456}}
              - {name: p12, bundle_ids: [e], certificate: {pkcs12: hunter2, passphrase_file: pass}}
            """)
        for (path, setting) in settings { #expect(!"\(path)\(setting.text)".contains("hunter2"), "\(path)") }
        for (path, text) in [
            ("kafka.oauth", "(set)"), ("kafka.librdkafka.security.protocol", "SASL_SSL"),
            ("kafka.librdkafka.sasl.password", "(set)"), ("kafka.librdkafka.ssl.ca.location", "ca.pem"),
            ("kafka.librdkafka.enable.ssl.certificate.verification", "false"),
            ("kafka.consumer.sasl.jaas.config", "(set)"), ("kafka.consumer.ssl.key.password", "(set)"),
            ("kafka.consumer.fetch.max.bytes", "1000"), ("kafka.producer.ssl.key.pem", "(set)"),
            ("kafka.producer.https.proxy.password", "(set)"), ("kafka.producer.oauth.secret", "(set)"),
            ("requests.topics", "a, {name: b, weight: 2, app: shop}"), ("admin.listen", nil),
            ("retry.tiers", "30s: apns.retry.30s, 15m: apns.retry.15m, 2h: apns.retry.2h"),
            ("delivery.max_age", "24h"), ("delivery.max_open_bytes", "16777216"),
            ("apps", "shop, web, inline, p12"), ("apps[shop].token.key_file", "keys/a.p8"),
            ("apps[shop].environment", "production"), ("apps[shop].tls.ca", "(set)"),
            ("apps[shop].proxy", "http://(set)@proxy:1"), ("apps[web].proxy", "http://[::1]:3128"),
            ("apps[web].bundle_ids", "b, c"), ("apps[web].certificate.pem", "(set)"),
            ("apps[web].certificate.key", "(set)"), ("apps[web].certificate.passphrase", "(set)"),
            ("apps[inline].token.key", "(set)"), ("apps[p12].certificate.pkcs12", "(set)"),
            ("apps[p12].certificate.passphrase_file", "pass"),
        ] { #expect(settings[path]?.text == text, "\(path)") }
    }

    @Test(
        arguments: [
            // A default that is written out, another unit, and another notation are no changes.
            ("", "drain: {shutdown: 12000ms}\nlog: {level: info}\nrequests: {topics: [{name: apns.requests}]}", []),
            ("", "drain: {shutdown: 20s}\nlog: {level: debug}", ["drain.shutdown", "log.level"]),
            ("log: {parts: {kafka: debug}}", "", ["log.parts.kafka"]),
            ("retry: {tiers: {1s: a.1s}}", "retry: {tiers: {1s: b}}", ["retry.tiers"]),
            ("delivery: {verdicts: {A: retry, B: accept}}", "delivery: {verdicts: {B: accept, A: retry}}", []),
            ("results: {copy_headers: [\"x, y\"]}", "results: {copy_headers: [x, y]}", ["results.copy_headers"]),
            ("delivery: {verdicts: {A: retry}}", "delivery: {verdicts: {A: accept}}", ["delivery.verdicts"]),
        ] as [(String, String, [String])])
    func `Changes are found by value`(old: String, new: String, paths: [String]) throws {
        #expect(try settings(minimal + old).changes(to: settings(minimal + new)) == paths)
    }

    @Test(
        arguments: [
            (["a", "b"], ["a", "b"], []), (["a", "b"], ["b", "a"], ["apps"]), (["a"], ["a", "a.b"], ["apps[a.b]"]),
            (["a", "b"], ["b, paused: true"], ["apps[a]", "apps[b].paused"]),
        ] as [([String], [String], [String])])
    func `Apps are compared by name and order`(old: [String], new: [String], paths: [String]) throws {
        func settings(_ names: [String]) throws -> [String: Setting] {
            let apps = names.map { "  - {name: \($0), bundle_ids: [x], \(Self.token)}\n" }.joined()
            return try self.settings("kafka: {bootstrap_servers: a}\napps:\n\(apps)")
        }
        #expect(try settings(old).changes(to: settings(new)) == paths)
    }

    /// A worker compares secrets of its own reads. The hash of a secret is not part of its text.
    @Test func `A process notices a changed secret`() throws {
        let old = try settings(minimal.replacing("key_file: key.p8", with: "key: a"))
        let new = try settings(minimal.replacing("key_file: key.p8", with: "key: b"))
        #expect(old.changes(to: new) == ["apps[shop].token.key"])
        #expect(old.changes(to: old) == [])
        #expect(old.mapValues { Setting(text: $0.text) }.changes(to: new.mapValues { Setting(text: $0.text) }) == [])
    }

    @Test(arguments: [
        ("apps", false), ("apps[shop]", false), ("apps[shop].paused", false), ("log.level", false),
        ("log.parts.kafka", false), ("log.format", true), ("kafka.group_id", true), ("crash", true),
    ]) func `Only apps and log levels change without a restart`(path: String, needsRestart: Bool) {
        #expect(Setting.needsRestart(path) == needsRestart)
    }
}

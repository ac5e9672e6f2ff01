import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Logins and permissions at a broker with TLS and ACLs.
    @Suite(.ownBroker) struct SecurityTests {
        @Test(.needs(.worker, .broker, .kcat, .openssl, .javaClient))
        func `The printed ACLs are sufficient, and check names each one that is missing`() throws {
            let secured = try SecuredScene()
            let scene = secured.scene
            try scene.check().expect(0, "run creates the missing topics")
            try secured.checkWithoutEach { $0 == .create }
            // The records need every topic.
            let worker = try scene.startWorker()
            try scene.send(to: deviceTokens(1) + deviceTokens(1, "fa174101") + deviceTokens(1, "fa174291"))
            try scene.kcat(["key:not JSON"])
            try scene.awaitResults(3, of: worker)
            let names = scene.configuration
            for topic in [names.unregistered, names.deadLetters] { try scene.await(topic, holds: 1, of: worker) }
            try scene.finish(worker)
            let outcomes = try scene.resultObjects().compactMap { $0["outcome"] as? String }
            #expect(outcomes.sorted() == ["abandoned", "accepted", "unregistered"])
            try secured.checkWithoutEach { $0 != .create }
            // The checks have written nothing.
            for topic in [names.results, names.unregistered, names.deadLetters, names.retry] {
                #expect(try scene.records(of: topic, "%o").count == (topic == names.results ? 3 : 1), "\(topic)")
            }
            secured.login("PLAIN, sasl.username: worker, sasl.password: worker-secret")
            try scene.check().expect(0, "all topics exist")
        }

        @Test(.needs(.worker, .broker, .kcat, .openssl, .javaClient))
        func `The worker warns of an expiring CA, and restarts with a renewed password once brokers accept it`() throws
        {
            let secured = try SecuredScene()
            let scene = secured.scene
            try scene.write("worker-secret", to: "password")
            secured.login("PLAIN, sasl.username: worker, sasl.password_file: password")
            let (worker, pages) = try scene.startWorkerWithPages()
            try pages.await("/status", says: #""kind":"certificate_expiring","subject":"kafka""#)
            try scene.write("wrong", to: "password")
            worker.signal(SIGHUP)
            try pages.await("/status", says: "because a restarted worker would fail")
            try scene.send(1)
            try scene.awaitResults(1, of: worker)
            // The line break at the end does not belong to the password.
            try scene.write("worker-secret\n", to: "password")
            try worker.waitFor("restarting: draining notifications in flight")
            let assigned = "partitions assigned group=\(scene.configuration.group) "
            try #require(waitUntil { worker.text.ranges(of: assigned).count > 1 })
            try scene.send(1)
            try scene.awaitResults(2, of: worker)
            try scene.finish(worker)
            #expect(try scene.resultObjects().allSatisfy { $0["in_doubt"] as? Int == 0 })
        }

        @Test(.needs(.worker, .broker, .kcat, .openssl, .javaClient))
        func `Tokens of a command are renewed while the worker runs`() throws {
            let secured = try SecuredScene()
            let scene = secured.scene
            try scene.write(
                #"""
                encode() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
                now=$(date +%s)
                echo "$now" >>"$0.calls"
                claims=$(printf '{"sub":"worker","iat":%s,"exp":%s}' "$now" $((now + 4)) | encode)
                printf '{"access_token":"%s.%s.","expires_in":4}' "$(printf '{"alg":"none"}' | encode)" "$claims"
                """#, to: "token.sh")
            secured.login(command: "sh \(scene.file("token.sh"))")
            let worker = try scene.startWorker()
            try scene.send(1)
            try scene.awaitResults(1, of: worker)
            func calls() -> Int { scene.lines(of: "token.sh.calls").count }
            // All clients log in again, after the lifetime of their first tokens.
            let first = calls()
            try secured.broker.stop(kill: false)
            try #require(waitUntil { calls() > 3 * first })
            try secured.broker.start()
            try scene.send(1)
            try scene.awaitResults(2, of: worker)
            try scene.finish(worker)
        }

        /// This test uses a newer librdkafka, because 2.0.2 cannot log in to Kafka 4 with SCRAM, and crashes when it
        /// renews an OAUTHBEARER token.
        @Test(.needs(.worker, .broker, .kcat, .openssl, .javaClient), .long)
        func `The worker logs in with SCRAM and OAUTHBEARER`() throws {
            let newer = ["LD_LIBRARY_PATH": try NewerClientLibrary.folder()]
            let secured = try SecuredScene()
            let scene = secured.scene
            let token = "sasl.oauthbearer.config: principal=worker, enable.sasl.oauthbearer.unsecure.jwt: true"
            for (count, login) in [
                (1, "SCRAM-SHA-512, sasl.username: worker, sasl.password: worker-secret"), (2, "OAUTHBEARER, \(token)"),
            ] {
                secured.login(login)
                let worker = try scene.startWorker(environment: newer)
                try scene.send(1)
                try scene.awaitResults(count, of: worker)
                try scene.finish(worker)
            }
        }
    }
}

/// A scene with a broker of its own, where `User:worker` has exactly the permissions that `check --acl` prints. At
/// first, the worker logs in with a certificate. It creates its topics.
private final class SecuredScene {
    let scene: Scene
    let broker: KafkaBroker
    private let authority: Scene
    private var permissions: [(operation: KafkaBroker.Operation, resource: KafkaBroker.Resource, name: String)] = []

    init() throws {
        authority = try Scene(withoutBroker: "authority")
        try authority.makeCertificate("ca", subject: "/CN=ca", "-days", "5")
        try authority.makeCertificate(
            "broker", by: "ca", subject: "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1,DNS:127.0.0.1")
        try authority.makeCertificate("worker", by: "ca", subject: "/CN=worker")
        let path = authority.file
        try ChildProcess.run("bash", ["-ec", "cat \(path("broker-key.pem")) >>\(path("broker.pem"))"]).expect(0)
        broker = try KafkaBroker(home: KafkaBroker.home ?? "", certificates: authority.folder.path)
        scene = try Scene("secured", on: broker)
        scene.configuration = Configuration(servers: "", name: "\(scene.name).created")
        let certificate = "ssl.certificate.location: \(path("worker.pem")), ssl.key.location: \(path("worker-key.pem"))"
        connect(to: broker.certificateServers, "ssl, \(certificate)")
        _ = try scene.startSimulator()
        try scene.configure()
        let printed = try scene.command("check --acl --principal User:worker").expect(0).text
        // Only the clients of the listener without a login may change ACLs.
        let script =
            #"kafka-acls.sh() { java -cp "$KAFKA_HOME/libs/*" org.apache.kafka.tools.AclCommand "$@"; }"# + "\n"
            + printed.replacing(scene.configuration.servers, with: broker.bootstrapServers)
        try ChildProcess.run("bash", ["-ec", script]).expect(0)
        permissions = try printed.split(separator: "\n").flatMap { line in
            let words = line.split(separator: " ").suffix(2).map(String.init)
            let resource: KafkaBroker.Resource = words[0] == "--group" ? .group(words[1]) : .topic(words[1])
            return try line.matches(of: /--operation (\w+)/).map {
                (try #require(KafkaBroker.Operation(rawValue: String($0.1))), resource, words[1])
            }
        }
        #expect(permissions.count == 18)
    }

    /// Sets the listener, the value of `security.protocol`, and further properties.
    private func connect(to servers: String?, _ security: String, more: String = "") {
        scene.configuration.servers = servers ?? ""
        scene.configuration.kafka =
            "create_topics: {partitions: 1, replication_factor: 1}, \(more)"
            + "librdkafka: {ssl.ca.location: \(authority.file("ca.pem")), security.protocol: \(security)}"
    }

    /// Changes the worker's login to SASL with this mechanism, and further properties.
    func login(_ sasl: String) { connect(to: broker.protectedServers, "sasl_ssl, sasl.mechanism: \(sasl)") }

    /// Changes the worker's login to the tokens that a command prints.
    func login(command: String) {
        connect(to: broker.protectedServers, "sasl_ssl", more: "oauth: {command: \(command)}, ")
    }

    /// Expects that `check` names each selected permission while it is missing, DESCRIBE_CONFIGS as a warning.
    func checkWithoutEach(where isSelected: (KafkaBroker.Operation) -> Bool) throws {
        for (operation, resource, name) in permissions where isSelected(operation) {
            try broker.revoke(operation, resource)
            let code: Int32 = operation == .describeConfigs ? 0 : 1
            let ended = try scene.check().expect(code, name, "grant \(operation.rawValue)")
            #expect(ended.text.ranges(of: "grant ").count == 1, "\(ended.text)")
            try broker.allow(operation, resource)
        }
    }
}

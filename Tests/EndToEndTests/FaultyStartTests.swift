import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of faults at the start. One log line reports each of them.
    @Suite struct FaultyStartTests {
        /// The worker does not handle signals yet, because it waits for its configuration from a pipe without a writer.
        @Test(.needs(.worker), arguments: [SIGHUP, SIGTERM, SIGINT])
        func `A signal during the start is handled`(number: Int32) throws {
            let scene = try Scene(withoutBroker: "pipe")
            let pipe = scene.file("pipe")
            try #require(mkfifo(pipe, 0o600) == 0)
            let run = try scene.start(Tool.worker.path(), ["run", "--config", pipe])
            try eventually("the worker below its supervisor", of: run) { try run.workerID != run.processID }
            run.signal(number)
            if number == SIGHUP {
                // This text is not a valid configuration.
                try "kafka: [".write(toFile: pipe, atomically: false, encoding: .utf8)
                #expect(try run.wait() == .exited(78))
            } else {
                #expect(try run.wait() == .exited(0))
            }
        }

        /// The signal arrives while libraries are initialized. Process 1 of a container would not receive it by
        /// default.
        @Test(.needs(.worker, .clang), arguments: [SIGHUP, SIGTERM, SIGINT])
        func `A signal before the start is handled`(number: Int32) throws {
            let scene = try Scene(withoutBroker: "early")
            let library = try scene.compile("early.c")
            func run(_ command: String) throws -> ChildProcess.Ending {
                try ChildProcess.run(
                    Tool.worker.path(), [command, "--config", "/no/such/file.yaml"],
                    environment: ["LD_PRELOAD": library, "EARLY_SIGNAL": "\(number)"]
                ).ending
            }
            // SIGHUP stays pending until there is something to reload. A stop signal ends the worker in order.
            #expect(try run("run") == .exited(number == SIGHUP ? 78 : 0))
            // Other commands end by the signal as usual.
            #expect(try run("check") == .signalled(number))
        }

        /// Like many web servers, this one answers a request that is not HTTP without waiting for the end of a line.
        private static let webServer = """
            import http.server
            class Handler(http.server.BaseHTTPRequestHandler):
                requestline, command, request_version = "", "", "HTTP/1.1"
                def handle(self):
                    self.rfile.read1()
                    self.send_error(400)
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            print(server.server_port, flush=True)
            server.serve_forever()
            """

        @Test(.needs(.worker, .broker, .python))
        func `A port that speaks another protocol than security.protocol is named`() throws {
            let scene = try Scene("listener", partitions: 1)
            let simulator = try scene.startSimulator()
            let http = simulator.control.replacing("http://", with: "")
            let webServer = try scene.start(Tool.python.path(), ["-c", Self.webServer])
            let web = try "127.0.0.1:\(webServer.waitFor("\n").prefix { $0 != "\n" })"
            for (servers, security, cause, advice) in [
                (web, "plaintext", "", "the port answers with HTTP: set kafka.bootstrap_servers to a Kafka listener"),
                (http, "ssl", "the port ", "kafka.librdkafka to plaintext"),
                ("127.0.0.1:\(simulator.port)", "plaintext", "", "kafka.librdkafka to ssl"),
                (scene.servers, "ssl", "the port ends the TLS handshake", "kafka.librdkafka to plaintext"),
            ] {
                scene.configuration.servers = servers
                scene.configuration.kafka = "librdkafka: {security.protocol: \(security)}"
                try scene.configure()
                try scene.command("check").expect(1, "Kafka cannot be reached at \(servers): \(cause)", advice)
            }
        }

        @Test(.needs(.worker, .broker))
        func `check warns of topics that may lose requests`() throws {
            let scene = try Scene("unsafe", partitions: 1)
            _ = try scene.startSimulator()
            let more = ["compacted", "unclean"].map { "\(scene.name).more.\($0)" }
            try scene.create(more[0], configuration: [KafkaProperty("cleanup.policy", "compact")])
            try scene.create(more[1], configuration: [KafkaProperty("unclean.leader.election.enable", "true")])
            scene.configuration.requestTopics = #"\#(scene.configuration.requests), "^\#(scene.name)[.]more""#
            let warning = "warning: kafka: topic "
            try scene.check().expect(
                0, "\(warning)\(more[0]) (requests.topics) has cleanup.policy=compact",
                "\(warning)\(more[1]) (requests.topics) has unclean.leader.election.enable=true")
        }

        static let deadPort = Ports.claim()

        /// Faults of a configuration, the words that their log line must contain, and whether `run` keeps trying. The
        /// files `garbage.p8` and `server.pem`, a key file without a key and another authority, are beside it.
        static let faults: [(words: [String], keepsTrying: Bool, arrange: @Sendable (inout Configuration) -> Void)] = [
            (["conections", "connections"], false, { $0.more = "conections: 3" }),
            (["no.such.topic"], false, { $0.requests = "no.such.topic" }),
            (["no.such.results"], false, { $0.results = "no.such.results" }),
            (["gone.p8"], false, { $0.keyFile = "gone.p8" }),
            (["garbage.p8"], false, { $0.keyFile = "garbage.p8" }),
            (["gone.pem"], false, { $0.caFile = "gone.pem" }),
            (["enable.idempotence"], false, { $0.kafka = "producer: {enable.idempotence: false}" }),
            (["127.0.0.1:\(deadPort)"], true, { $0.servers = "127.0.0.1:\(deadPort)" }),
            (["localhost", "\(deadPort)"], true, { $0.port = deadPort }),
            (["apns.invalid"], true, { $0.host = "apns.invalid" }),
            (["localhost", "certificate"], true, { $0.caFile = "server.pem" }),
        ]

        /// The limit is raised up to the hard limit. A log line reports if that is too low.
        @Test(.needs(.worker, .broker), arguments: [true, false])
        func `The limit of descriptors is raised`(isEnough: Bool) throws {
            let scene = try Scene("descriptors", partitions: 1)
            try scene.makeCertificate("server", subject: "/CN=localhost")
            try scene.makeSigningKey(scene.configuration.keyFile)
            scene.configuration.caFile = "server.pem"
            scene.configuration.admin = "127.0.0.1:0"
            try scene.write(scene.configuration.text, to: "worker.yaml")
            let worker = try scene.start(
                "bash",
                [
                    "-c", #"ulimit -Sn 80; ulimit -Hn $0; exec "$@""#, isEnough ? "1000" : "100", Tool.worker.path(),
                    "run", "--config", scene.file("worker.yaml"),
                ])
            try worker.waitFor("admin pages")
            let limits = try String(contentsOfFile: "/proc/\(worker.workerID)/limits", encoding: .utf8)
            let match = try #require(limits.firstMatch(of: /Max open files +([0-9]+) +([0-9]+)/))
            #expect(match.1 == match.2 && match.1 == (isEnough ? "1000" : "100"))
            #expect(worker.text.contains("descriptor limit too low") != isEnough)
        }

        /// All faults are tested at once, because most of the time is spent waiting for the next attempt.
        @Test(.needs(.worker, .broker, .python, .openssl))
        func `One line reports each fault`() throws {
            let sound = try Scene("sound")
            _ = try sound.startSimulator()
            try sound.check().expect(0)
            try sound.makeCertificate("server", subject: "/CN=localhost")
            try sound.write("-----BEGIN PRIVATE KEY-----\nbm90IGEga2V5\n-----END PRIVATE KEY-----\n", to: "garbage.p8")

            // The scenes are kept, because they remove their folders when they are deallocated.
            let started = try Self.faults.map { fault in
                let scene = try Scene(sharingTopicsOf: sound)
                fault.arrange(&scene.configuration)
                try scene.configure()
                return (fault, scene, try scene.startCommand("check"), try scene.startCommand("run"))
            }
            for (fault, _, check, run) in started {
                let words = fault.words
                #expect(try check.wait() == .exited(1), "check, \(words): \(check.text)")
                #expect(Self.lines(of: check, naming: words).count == 1, "check, \(words): \(check.text)")
                if fault.keepsTrying {
                    try eventually("two lines of run, \(words),", of: run) {
                        Self.lines(of: run, naming: words).count >= 2
                    }
                    #expect(try run.stop() == .exited(0), "run, \(words): \(run.text)")
                } else {
                    #expect(try run.wait() == .exited(78), "run, \(words): \(run.text)")
                    #expect(Self.lines(of: run, naming: words).count == 1, "run, \(words): \(run.text)")
                }
            }
        }

        /// Without APNs there is no result, so `send` asks the worker for the reason.
        @Test(.needs(.worker, .broker, .python))
        func `send reports why its worker does not send`() throws {
            let scene = try Scene("cutoff", partitions: 1)
            _ = try scene.startSimulator()
            // `send` finds the admin pages by the configuration.
            let admin = Ports.claim()
            let port = Ports.claim()
            scene.configuration.port = port
            scene.configuration.admin = "127.0.0.1:\(admin)"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status", says: "cannot connect to localhost")
            let send = "send -t \(deviceTokens(1)[0]) -a Hi --deadline 2s"
            try scene.command(send).expect(
                1, "apns-worker send: the worker at 127.0.0.1:\(admin) reports: app shop: ",
                "cannot connect to localhost:\(port)", ". Advice: check the network, the proxy and the app's host")
            try scene.stop(worker)
            try scene.command(send).expect(1, "no worker answers at 127.0.0.1:\(admin) (admin.listen)")
        }

        private static func lines(of process: ChildProcess, naming words: [String]) -> [Substring] {
            process.text.split(separator: "\n").filter { line in words.allSatisfy { line.contains($0) } }
        }
    }
}

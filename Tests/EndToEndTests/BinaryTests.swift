import Foundation
import TestSupport
import Testing

extension EndToEnd.Gateways {
    /// The binary protocol, from the request topic to the results, against the simulator's gateway. Each notification
    /// has a device token of its own, by which `Books/gateway.py` compares what was written, accepted and said.
    @Suite(.serialized) struct BinaryTests {
        private static let records = 3_000

        /// One run: what the gateway does, and how often the worker ends in it.
        struct Run: Sendable, CustomTestStringConvertible {
            var name: String
            var faults: [String] = []
            var binary = ""
            var badEvery = 0
            var records = BinaryTests.records
            /// The worker is stopped, or killed, at these shares of the results, and another takes over.
            var ends: [Double] = []
            var isKilled = false
            /// What may be accepted again, as `gateway.py audit` has it.
            var repeats = "none"
            /// What the log says in the end.
            var says: [String] = []
            var isLong = false

            var testDescription: String { name }
        }

        private static let runs = [
            // node-apn 1.7.8 loses up to 17,467 of 20,000 in this.
            Run(
                name: "late errors", faults: ["error-delay=200ms"], badEvery: 500,
                says: [
                    "debug apns: the gateway answered", "debug apns: the window passed, and the gateway said nothing",
                ]),
            Run(
                name: "it closes without a word", faults: ["close@1000"], binary: "window: {duration: 200ms}",
                repeats: "doubtful"),
            Run(
                // So early that some connection comes so far, however they share the notifications.
                name: "it shuts down in order", faults: ["shutdown@100", "split"], badEvery: 700,
                says: [#"reason="status 10""#]),
            // The fence decides what is open at each stop, long before its window has closed.
            Run(
                name: "a rolling restart", binary: "window: {duration: 5s}", badEvery: 1_000, records: 10_000,
                ends: [0.2, 0.5]),
            Run(
                name: "the worker is killed", faults: ["error-delay=50ms"], binary: "window: {duration: 500ms}",
                badEvery: 500, records: 10_000, ends: [0.2, 0.5], isKilled: true, repeats: "crashed"),
            Run(name: "a million", faults: ["error-delay=200ms"], badEvery: 500, records: 1_000_000, isLong: true),
            Run(
                name: "it closes every 5,000", faults: ["close@5000"], records: 100_000, repeats: "doubtful",
                isLong: true),
        ]

        @Test(.needs(.worker, .broker, .python), arguments: runs.filter { Long.isWanted || !$0.isLong })
        func `Nothing is lost, and only what may be is sent twice`(run: Run) throws {
            let scene = try GatewayScene("run", faults: run.faults, binary: run.binary)
            try scene.produce(run.records, badEvery: run.badEvery)
            for share in run.ends {
                let worker = try scene.start()
                try scene.awaitResults(Int(share * Double(run.records)))
                if run.isKilled { try worker.killNow() } else { try scene.stop(worker) }
            }
            let worker = try scene.start()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(run.records, badEvery: run.badEvery, "--repeats", run.repeats)
            for words in run.says { #expect(worker.text.contains(words), "\(words)") }
            #expect(!worker.text.contains("after its window had closed"))
            #expect(!worker.text.contains(/[0-9a-f]{33}/), "no device token is named")
        }

        /// What an error says too late is lost, and told: how much at most, and that the window is longer from then on.
        @Test(.needs(.worker, .broker, .python))
        func `A window that is too short is noticed, counted and lengthened`() throws {
            let scene = try GatewayScene(
                "short", faults: ["error-delay=600ms"], binary: "window: {duration: 100ms}", hasAdmin: true)
            try scene.produce(4_000, badEvery: 1_000, "--rate", "1000")
            let worker = try scene.start()
            try scene.settle(worker)
            try worker.waitFor("the window is longer from now on")
            let pages = try Pages(of: worker)
            let metrics = try pages.await("/metrics", says: "apns_worker_window_too_short_total{app=\"kiosk\"} 1")
            let lost = try #require(Self.number("apns_worker_window_lost_at_most_total", in: metrics))
            let count = try #require(Self.number("apns_worker_window_too_short_total", in: metrics))
            try pages.await("/status", says: "came after their window had closed")
            try scene.stop(worker)
            #expect(
                worker.text.contains("an error came after its window had closed: what was written after it is lost"))
            // The bad ones that silence had accepted stand in their results as accepted.
            try scene.audit(4_000, "--lost-at-most", "\(lost + count)")
        }

        /// Its kernel takes what its program never reads: the app is named, and held, until the gateway reads again.
        /// What another app has far behind its records in the same partition waits for neither.
        @Test(.needs(.worker, .broker, .python), arguments: Long.isWanted ? ["silent", "slow=10"] : ["silent"])
        func `A gateway that reads nothing holds up no other app`(fault: String) throws {
            let scene = try GatewayScene("unread", faults: [fault], hasAdmin: true, hasOther: true)
            try scene.produce(13_000, "--app", "kiosk")
            try scene.produce(1_000, "--first", "13000", "--app", "shop")
            let worker = try scene.start()
            try scene.await(1_000, of: "shop")
            let pages = try Pages(of: worker)
            try pages.await("/status", says: "no answer to a token of zeros")
            try pages.await("/metrics", says: "apns_worker_held_total{app=\"kiosk\",cause=\"unreachable\"} 1")
            try worker.waitFor("took in nothing more for 15 s: it reads no further")
            // No notification is used up to find out whether it reads: what its kernel took before that was known is
            // all.
            let presumed = try scene.results(of: "kiosk")
            #expect(presumed < 1_000)
            try scene.simulator.set("gateway=")
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(14_000, "--repeats", "doubtful", "--lost-at-most", "\(presumed)")
        }

        @Test(
            .needs(.worker, .broker, .python),
            arguments: [("fa170007", "rejected:PayloadTooLarge:7"), ("fa170001", "abandoned:ProcessingError:1")])
        func `A status is named in the result`(code: String, expected: String) throws {
            let scene = try GatewayScene("status", binary: "format: enhanced, window: {duration: 200ms}")
            try scene.produce(400, badEvery: 40, "--code", code)
            let worker = try scene.start()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(400, badEvery: 40, "--code", code, "--expected", expected)
        }

        @Test(.needs(.worker, .broker, .python))
        func `An app goes over from one protocol to the other`() throws {
            let scene = try GatewayScene("change", binary: "window: {duration: 200ms}", isBinary: false)
            try scene.produce(2_000, "--rate", "1000")
            let worker = try scene.start()
            try scene.awaitResults(500)
            try scene.write(isBinary: true)
            try scene.signalReload(worker, saying: "connections are made anew")
            try scene.produce(2_000, "--first", "2000", "--rate", "1000")
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(4_000)
        }

        @Test(.needs(.worker, .broker, .python))
        func `check says whether the gateway answers`() throws {
            let scene = try GatewayScene("check")
            try scene.write(isBinary: true)
            let good = try scene.check("--probe")
            #expect(good.ending == .exited(0), "\(good.text)")
            #expect(good.text.contains("binary protocol"))
            #expect(good.text.contains("status 8: the gateway reads, and refuses a token of zeros"))
            let silent = try GatewayScene("check-silent", faults: ["silent"])
            try silent.write(isBinary: true)
            let bad = try silent.check("--probe")
            #expect(bad.ending == .exited(1), "\(bad.text)")
            #expect(bad.text.contains("no answer within 5 s to a token of zeros"))
        }

        private static func number(_ name: String, in metrics: String) -> Int? {
            metrics.split(separator: "\n").first { $0.hasPrefix("\(name){") }
                .flatMap { $0.split(separator: " ").last }.flatMap { Int($0) }
        }
    }
}

/// A scene whose app speaks the binary protocol with the simulator's gateway.
private final class GatewayScene {
    private let scene: Scene
    let simulator: RunningSimulator
    private let gatewayPort: Int
    private let binary: String
    private let hasAdmin: Bool
    private var isBinary: Bool
    /// An app of HTTP/2 beside it, and one partition for both.
    private let hasOther: Bool

    init(
        _ label: String, faults: [String] = [], binary: String = "", isBinary: Bool = true, hasAdmin: Bool = false,
        hasOther: Bool = false
    ) throws {
        scene = try Scene("gateway-\(label)", partitions: hasOther ? 1 : 4)
        self.hasOther = hasOther
        self.hasAdmin = hasAdmin
        self.binary = binary
        self.isBinary = isBinary
        // The books have no apns-id, whichever way it came: those of HTTP/2 are compared by token as well.
        simulator = try scene.startSimulator(
            arguments: ["--gateway", "0"] + faults.flatMap { ["--gateway-fault", $0] })
        gatewayPort = try simulator.gatewayPort()
    }

    func write(isBinary: Bool) throws {
        self.isBinary = isBinary
        let base = scene.configuration
        let keys =
            isBinary
            ? ["transport: binary", "port: \(gatewayPort)", "binary: {\(binary)}"] : ["port: \(simulator.port)"]
        let other =
            hasOther
            ? """

              - name: shop
                bundle_ids: [com.example.app]
                environment: development
                host: localhost
                port: \(simulator.port)
                certificate: {file: client.pem, key_file: client-key.pem}
                tls: {ca_file: ca.pem}
            """ : ""
        try scene.write(
            """
            kafka: {bootstrap_servers: "\(base.servers)", group_id: \(base.group), session_timeout: 6s}
            requests: {topics: [\(base.requests)]}
            results: {topic: \(base.results)}
            unregistered: {topic: \(base.unregistered)}
            dead_letters: {topic: \(base.deadLetters)}
            retry: {\(base.retries)}
            apps:
              - name: kiosk
                bundle_ids: [com.example.\(hasOther ? "kiosk" : "app")]
                environment: development
                host: localhost
                certificate: {file: client.pem, key_file: client-key.pem}
                tls: {ca_file: ca.pem}
            \(keys.map { "    \($0)" }.joined(separator: "\n"))\(other)
            admin: {listen: \(hasAdmin ? "127.0.0.1:0" : "off")}
            """, to: "worker.yaml")
    }

    func start() throws -> ChildProcess {
        try write(isBinary: isBinary)
        return try scene.start(
            Tool.worker.path(), ["run", "--config", scene.file("worker.yaml"), "--log-part", "apns=debug"])
    }

    func check(_ more: String...) throws -> Scene.Finished {
        try Scene.run(Tool.worker.path(), ["check", "--config", scene.file("worker.yaml")] + more)
    }

    private func gateway(_ command: String, _ arguments: [String]) throws -> String {
        let ended = try Scene.run(
            Tool.python.path(),
            [Scene.book("gateway.py"), command, "--servers", scene.servers, "--topic", scene.configuration.requests]
                + arguments, within: 600)
        guard ended.ending == .exited(0) else {
            throw Unexpected("gateway.py \(command) \(ended.ending):\n\(ended.text)")
        }
        print(ended.text)
        return ended.text
    }

    func produce(_ count: Int, badEvery: Int = 0, _ more: String...) throws {
        _ = try gateway("produce", ["--count", "\(count)", "--bad-every", "\(badEvery)"] + more)
    }

    @discardableResult
    func audit(_ count: Int, badEvery: Int = 0, _ more: String...) throws -> String {
        try gateway(
            "audit",
            [
                "--count", "\(count)", "--bad-every", "\(badEvery)", "--results", scene.configuration.results,
                "--simulator", simulator.control,
            ] + more)
    }

    /// Waits until so many notifications of an app have results.
    func await(_ count: Int, of app: String) throws {
        try eventually("\(count) results of \(app)") { try results(of: app) >= count }
    }

    /// How many notifications of an app have results.
    func results(of app: String) throws -> Int {
        let results = try scene.resultObjects().filter { $0["app"] as? String == app }
        return Set(results.compactMap { $0["device_token"] as? String }).count
    }

    func awaitResults(_ count: Int) throws { try scene.awaitResults(count) }
    func settle(_ worker: ChildProcess) throws { try scene.settle(worker) }
    func stop(_ worker: ChildProcess) throws { try scene.stop(worker) }
    func signalReload(_ worker: ChildProcess, saying words: String) throws {
        try scene.signalReload(worker, saying: words)
    }
}

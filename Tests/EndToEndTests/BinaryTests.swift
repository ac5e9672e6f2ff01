import Foundation
import TestSupport
import Testing

extension EndToEnd.Gateways {
    /// The binary protocol, from the request topic to the results, against the simulator's gateway. Each notification
    /// has a device token of its own, by which `Books/gateway.py` compares what was written, accepted and said.
    @Suite(.serialized) struct BinaryTests {
        private static let records = 10_000

        /// node-apn 1.7.8 loses up to 17,467 of 20,000 in this.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(3)))
        func lateErrorsLoseNothingAndSendNothingTwice() throws {
            let scene = try GatewayScene("late", faults: ["error-delay=200ms"])
            try scene.produce(Self.records, badEvery: 500)
            let worker = try scene.start()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(Self.records, badEvery: 500)
            #expect(!worker.text.contains("after its window had closed"))
            #expect(worker.text.contains("debug apns: the gateway answered"))
            #expect(worker.text.contains("debug apns: the window passed, and the gateway said nothing"))
            // No device token is named.
            #expect(!worker.text.contains(/[0-9a-f]{33}/))
        }

        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(3)))
        func aGatewayThatClosesWithoutAWordLosesNothingAndWhatIsSentAgainSaysSo() throws {
            let scene = try GatewayScene(
                "close", faults: ["close@1000"], binary: "window: {duration: 200ms}", hasAdmin: true)
            try scene.produce(Self.records)
            let worker = try scene.start()
            try scene.settle(worker)
            _ = try scene.page("status", with: "connections to its gateway ended without a word")
            try scene.stop(worker)
            try scene.audit(Self.records, "--repeats", "doubtful")
        }

        /// As the first one, with a million as fast as they go: some 67 s on two quiet cores, and the audit.
        @Test(.needs(.worker, .broker, .python), .long, .timeLimit(.minutes(10)))
        func aMillionWithLateErrorsLoseNothingAndNoneIsSentTwice() throws {
            let scene = try GatewayScene("million", faults: ["error-delay=200ms"])
            try scene.produce(1_000_000, badEvery: 500)
            let worker = try scene.start()
            try scene.settle(worker, within: 400)
            try scene.stop(worker)
            try scene.audit(1_000_000, badEvery: 500)
            #expect(!worker.text.contains("after its window had closed"))
        }

        /// Duplicates are no more than what was open at each end.
        @Test(.needs(.worker, .broker, .python), .long, .timeLimit(.minutes(10)))
        func aHundredThousandOverAGatewayThatClosesEvery5000LoseNothing() throws {
            let scene = try GatewayScene("closes", faults: ["close@5000"])
            try scene.produce(100_000)
            let worker = try scene.start()
            try scene.settle(worker, within: 400)
            try scene.stop(worker)
            try scene.audit(100_000, "--repeats", "doubtful")
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(3)))
        func aGatewayThatShutsDownInOrderSendsNothingTwice() throws {
            let scene = try GatewayScene("shutdown", faults: ["shutdown@1000", "split"])
            try scene.produce(Self.records, badEvery: 700)
            let worker = try scene.start()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(Self.records, badEvery: 700)
            #expect(worker.text.contains(#"reason="status 10""#))
        }

        /// The fence decides what is open at each stop, long before its window has closed.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(3)))
        func aRollingRestartSendsNothingTwice() throws {
            let scene = try GatewayScene("restart", binary: "window: {duration: 5s}")
            try scene.produce(Self.records, badEvery: 1_000)
            for share in [0.2, 0.5] {
                let worker = try scene.start()
                try scene.awaitResults(Int(share * Double(Self.records)))
                try scene.stop(worker)
            }
            let worker = try scene.start()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(Self.records, badEvery: 1_000)
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(3)))
        func nothingIsLostWhenTheWorkerIsKilled() throws {
            let scene = try GatewayScene("killed", faults: ["error-delay=50ms"], binary: "window: {duration: 500ms}")
            try scene.produce(Self.records, badEvery: 500)
            for share in [0.2, 0.5] {
                let worker = try scene.start()
                try scene.awaitResults(Int(share * Double(Self.records)))
                try worker.killNow()
            }
            let worker = try scene.start()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(Self.records, badEvery: 500, "--repeats", "crashed")
        }

        /// What an error says too late is lost, and told: how much at most, and that the window is longer from then on.
        @Test(.needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(3)))
        func aWindowThatIsTooShortIsNoticedCountedAndLengthened() throws {
            let scene = try GatewayScene(
                "short", faults: ["error-delay=600ms"], binary: "window: {duration: 100ms}", hasAdmin: true)
            try scene.produce(4_000, badEvery: 1_000, "--rate", "1000")
            let worker = try scene.start()
            try scene.settle(worker)
            try worker.waitFor("the window is longer from now on", seconds: 20)
            // The pages are those of the last second.
            let metrics = try scene.page("metrics", with: "apns_worker_window_too_short_total{app=\"kiosk\"} 1")
            let lost = try #require(Self.number("apns_worker_window_lost_at_most_total", in: metrics))
            let count = try #require(Self.number("apns_worker_window_too_short_total", in: metrics))
            _ = try scene.page("status", with: "came after their window had closed")
            try scene.stop(worker)
            #expect(
                worker.text.contains("an error came after its window had closed: what was written after it is lost"))
            // The bad ones that silence had accepted stand in their results as accepted.
            try scene.audit(4_000, "--lost-at-most", "\(lost + count)")
        }

        /// Its kernel takes what its program never reads: the app is named, and held, until the gateway reads again.
        /// What another app has far behind its records in the same partition waits for neither.
        @Test(
            .needs(.worker, .broker, .python, .curl), .timeLimit(.minutes(4)), arguments: ["silent", "slow=10"])
        func aGatewayThatReadsNothingHoldsUpNoOtherApp(fault: String) throws {
            let scene = try GatewayScene("unread", faults: [fault], hasAdmin: true, hasOther: true)
            try scene.produce(13_000, "--app", "kiosk")
            try scene.produce(3_000, "--first", "13000", "--app", "shop")
            let worker = try scene.start()
            try scene.await(3_000, of: "shop", within: 45)
            _ = try scene.page("status", with: "no answer to a token of zeros")
            _ = try scene.page("metrics", with: "apns_worker_held_total{app=\"kiosk\",cause=\"unreachable\"} 1")
            #expect(worker.text.contains("took in nothing more for 15 s: it reads no further"))
            // No notification is used up to find out whether it reads: what its kernel took before that was known is
            // all.
            let presumed = try scene.results(of: "kiosk")
            #expect(presumed < 1_000)
            try scene.post("/faults?gateway=")
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(16_000, "--repeats", "doubtful", "--lost-at-most", "\(presumed)")
        }

        @Test(
            .needs(.worker, .broker, .python), .timeLimit(.minutes(3)),
            arguments: [("fa170007", "rejected:PayloadTooLarge:7"), ("fa170001", "abandoned:ProcessingError:1")])
        func aStatusIsNamedInTheResult(code: String, expected: String) throws {
            let scene = try GatewayScene("status", binary: "format: enhanced, window: {duration: 200ms}")
            try scene.produce(400, badEvery: 40, "--code", code)
            let worker = try scene.start()
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(400, badEvery: 40, "--code", code, "--expected", expected)
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(3)))
        func anAppGoesOverFromOneProtocolToTheOther() throws {
            let scene = try GatewayScene("change", binary: "window: {duration: 200ms}", isBinary: false)
            try scene.produce(2_000, "--rate", "1000")
            let worker = try scene.start()
            try scene.awaitResults(500)
            try scene.write(isBinary: true)
            worker.signal(SIGHUP)
            try worker.waitFor("connections are made anew", seconds: 20)
            try scene.produce(2_000, "--first", "2000", "--rate", "1000")
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit(4_000)
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(1)))
        func checkSaysWhetherTheGatewayAnswers() throws {
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
    private let simulator: RunningSimulator
    private let gatewayPort: Int
    private let binary: String
    private let admin: Int?
    private var isBinary: Bool
    /// An app of HTTP/2 beside it, and one partition for both.
    private let hasOther: Bool

    init(
        _ label: String, faults: [String] = [], binary: String = "", isBinary: Bool = true, hasAdmin: Bool = false,
        hasOther: Bool = false
    ) throws {
        scene = try Scene("gateway-\(label)", partitions: hasOther ? 1 : 4)
        self.hasOther = hasOther
        let ports = KafkaBroker.freePorts(2)
        gatewayPort = ports[0]
        admin = hasAdmin ? ports[1] : nil
        self.binary = binary
        self.isBinary = isBinary
        // The books have no apns-id, whichever way it came: those of HTTP/2 are compared by token as well.
        simulator = try scene.startSimulator(
            arguments: ["--gateway", "\(gatewayPort)"] + faults.flatMap { ["--gateway-fault", $0] })
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
            admin: {listen: \(admin.map { "127.0.0.1:\($0)" } ?? "off")}
            """, to: "worker.yaml")
    }

    func start() throws -> ChildProcess {
        try write(isBinary: isBinary)
        return try ChildProcess(
            Tool.worker.path(), ["run", "--config", scene.file("worker.yaml"), "--log-part", "apns=debug"])
    }

    func check(_ more: String...) throws -> Scene.Finished {
        try Scene.run(Tool.worker.path(), ["check", "--config", scene.file("worker.yaml")] + more)
    }

    private func gateway(_ command: String, _ arguments: [String]) throws -> String {
        let program = URL(fileURLWithPath: Scene.program).deletingLastPathComponent().appending(path: "gateway.py").path
        let ended = try Scene.run(
            Tool.python.path(),
            [program, command, "--servers", scene.servers, "--topic", scene.configuration.requests] + arguments,
            within: 300)
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

    func await(_ count: Int, of app: String, within seconds: Int) throws {
        _ = try gateway(
            "await",
            ["--results", scene.configuration.results, "--app", app, "--count", "\(count)", "--within", "\(seconds)"])
    }

    /// How many notifications of an app have results.
    func results(of app: String) throws -> Int {
        let text = try gateway(
            "await", ["--results", scene.configuration.results, "--app", app, "--count", "0", "--within", "0"])
        return try #require(text.split(separator: " ").first.flatMap { Int($0) })
    }

    func post(_ path: String) throws {
        let ended = try Scene.run(Tool.curl.path(), ["-s", "-f", "-X", "POST", simulator.control + path], within: 10)
        guard ended.ending == .exited(0) else { throw Unexpected("POST \(path) \(ended.ending)") }
    }

    func awaitResults(_ count: Int) throws { try scene.awaitResults(count) }
    func settle(_ worker: ChildProcess, within seconds: Double = 120) throws {
        try scene.settle(worker, within: seconds)
    }
    func stop(_ worker: ChildProcess) throws { try scene.stop(worker) }

    /// One of the admin pages, once it has that text.
    func page(_ name: String, with text: String) throws -> String {
        guard let admin else { throw Unexpected("no admin pages") }
        let deadline = Date(timeIntervalSinceNow: 20)
        while true {
            let page = try Scene.run(
                Tool.curl.path(), ["-s", "-m", "5", "http://127.0.0.1:\(admin)/\(name)"], within: 10)
            if page.text.contains(text) { return page.text }
            guard Date() < deadline else { throw Unexpected("/\(name) never said \(text):\n\(page.text)") }
            usleep(200_000)
        }
    }

    deinit { _ = try? simulator.process.stop() }
}

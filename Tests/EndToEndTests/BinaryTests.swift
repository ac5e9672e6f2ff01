import TestSupport
import Testing

extension EndToEnd {
    /// Tests of the binary protocol from the request topic to the results, with the simulator's gateway. Each
    /// notification has its own device token, by which `Books/books.py` compares requests, results and the gateway's
    /// book.
    @Suite struct BinaryTests {
        struct Run: Sendable, CustomTestStringConvertible {
            var name: String
            var faults: [String] = []
            var binary = ""
            var badEvery = 0
            var records = 3_000
            /// The fractions of the results at which the worker is stopped or killed and another one takes over.
            var ends: [Double] = []
            var isKilled = false
            /// The notifications that may be accepted again (`books.py gateway_audit --repeats`).
            var repeats = "none"
            var says: [String] = []

            var testDescription: String { name }
        }

        private static let runs = [
            // node-apn 1.7.8 loses up to 17,467 of 20,000 notifications in this run.
            Run(
                name: "late errors", faults: ["error-delay=200ms"], badEvery: 500,
                records: Long.isWanted ? 1_000_000 : 3_000,
                says: [
                    "debug apns: the gateway answered",
                    "debug apns: resend window closed without an error from the gateway",
                ]),
            Run(
                name: "the gateway closes without an answer", faults: ["close@1000"],
                binary: "window: {duration: 200ms}", records: Long.isWanted ? 100_000 : 3_000, repeats: "doubtful"),
            Run(
                // This is early enough for some connection to reach it, however they share the notifications.
                name: "the gateway shuts down in order", faults: ["shutdown@100", "split"], badEvery: 700,
                says: [#"reason="status 10""#]),
            // At each stop a fence decides the open notifications, long before their window ends.
            Run(
                name: "a rolling restart", binary: "format: enhanced, window: {duration: 5s}", badEvery: 1_000,
                records: 10_000,
                ends: [0.2, 0.5]),
            Run(
                name: "the worker is killed", faults: ["error-delay=50ms"], binary: "window: {duration: 500ms}",
                badEvery: 500, records: 10_000, ends: [0.2, 0.5], isKilled: true, repeats: "crashed"),
        ]

        @Test(.needs(.worker, .broker, .python), arguments: runs)
        func `No notification is lost, and only notifications in doubt are sent twice`(run: Run) throws {
            let scene = try GatewayScene("run", faults: run.faults, binary: run.binary, badEvery: run.badEvery)
            try scene.produce(run.records)
            for share in run.ends {
                let worker = try scene.start()
                try scene.base.awaitResults(Int(share * Double(run.records)))
                if run.isKilled { try worker.killNow() } else { try scene.base.stop(worker) }
            }
            let worker = try scene.start()
            try scene.finish(worker, run.records, "--repeats", run.repeats)
            for words in run.says { #expect(worker.text.contains(words), "\(words)") }
            #expect(!worker.text.contains("after its resend window closed"))
            #expect(!worker.text.contains(/[0-9a-f]{33}/), "a device token is in the log")
        }

        /// Notifications after an error that arrives too late are lost. The worker reports their maximum number, and
        /// lengthens the window.
        @Test(.needs(.worker, .broker, .python))
        func `A window that is too short is detected, counted and lengthened`() throws {
            let scene = try GatewayScene(
                "short", faults: ["error-delay=600ms"], binary: "window: {duration: 100ms}", badEvery: 1_000)
            try scene.produce(4_000, "--rate", "1000")
            let worker = try scene.start()
            try scene.base.settle(worker)
            try worker.waitFor("resend window lengthened")
            let pages = try Pages(of: worker)
            let metrics = try pages.await("/metrics") { Pages.sum("apns_worker_window_too_short_total", in: $0.1) >= 1 }
            let lost = Pages.sum("apns_worker_window_lost_at_most_total", in: metrics)
            let count = Pages.sum("apns_worker_window_too_short_total", in: metrics)
            try pages.await("/status", says: "arrived after their resend window closed")
            try scene.finish(worker, 4_000, "--lost-at-most", "\(lost + count)")
            #expect(worker.text.contains("error arrived after its resend window closed; later notifications are lost"))
        }

        /// The kernel accepts bytes that the gateway never reads. The app is reported, and its notifications are
        /// deferred until the gateway reads again. Records of another app far behind in the same partition do not wait.
        @Test(.needs(.worker, .broker, .python), arguments: Long.isWanted ? ["silent", "slow=10"] : ["silent"])
        func `A gateway that does not read delays no other app`(fault: String) throws {
            let scene = try GatewayScene("unread", faults: [fault], hasOther: true)
            try scene.produce(13_000, "--app", "kiosk")
            try scene.produce(1_000, "--first", "13000", "--app", "shop")
            let worker = try scene.start()
            try scene.base.awaitResults(1_000)
            try eventually("1000 results of shop") { try scene.results(of: "shop") >= 1_000 }
            let pages = try Pages(of: worker)
            try pages.await("/status", says: "no answer to a token of zeros")
            try pages.await("/metrics", says: "apns_worker_held_total{app=\"kiosk\",cause=\"unreachable\"} 1")
            try worker.waitFor("acknowledged no byte for 15 s: it stopped reading")
            // These were accepted by the kernel before the gateway was known not to read. None was sent to check
            // whether the gateway reads again.
            let presumed = try scene.results(of: "kiosk")
            #expect((1..<1_000).contains(presumed))
            // The worker reports them as possibly lost when it gives up their connections.
            let counter = "apns_worker_window_lost_at_most_total"
            let metrics = try pages.await("/metrics") { Pages.sum(counter, in: $0.1) >= presumed }
            let lost = Pages.sum(counter, in: metrics)
            try scene.simulator.set("gateway=")
            try scene.finish(worker, 14_000, "--repeats", "doubtful", "--lost-at-most", "\(lost)")
        }

        @Test(
            .needs(.worker, .broker),
            arguments: [
                ([], Int32(0), "status 8: the gateway rejected a token of zeros"),
                (["silent"], 1, "no answer within 5 s to a token of zeros"),
            ])
        func `check reports whether the gateway answers`(faults: [String], code: Int32, words: String) throws {
            let scene = try GatewayScene("check", faults: faults)
            try scene.write()
            try scene.base.command("check --probe").expect(code, words, "binary protocol")
        }
    }
}

/// A scene whose app `kiosk` uses the binary protocol with the simulator's gateway.
private final class GatewayScene {
    let base: Scene
    let simulator: RunningSimulator
    private let gatewayPort: Int
    private let binary: String
    /// Whether a second app, `shop`, sends over HTTP/2 from the same partition.
    private let hasOther: Bool
    private let badEvery: Int

    init(
        _ label: String, faults: [String] = [], binary: String = "", badEvery: Int = 0, hasOther: Bool = false
    ) throws {
        base = try Scene("gateway-\(label)", partitions: hasOther ? 1 : 4)
        (self.binary, self.badEvery, self.hasOther) = (binary, badEvery, hasOther)
        simulator = try base.startOtherSimulator(
            arguments: ["--gateway", "0"] + faults.flatMap { ["--gateway-fault", $0] })
        base.configuration.port = simulator.port
        gatewayPort = try simulator.process.port(after: "binary gateway on")
    }

    private func app(_ name: String, _ bundle: String, _ transport: String) -> String {
        """
          - {name: \(name), bundle_ids: [com.example.\(bundle)], environment: development, host: localhost, \(transport), \
        certificate: {file: client.pem, key_file: client-key.pem}, tls: {ca_file: ca.pem}}

        """
    }

    func write() throws {
        base.configuration.admin = "127.0.0.1:0"
        base.configuration.allApps =
            app("kiosk", hasOther ? "kiosk" : "app", "transport: binary, port: \(gatewayPort), binary: {\(binary)}")
            + (hasOther ? app("shop", "app", "port: \(simulator.port)") : "")
        try base.configure()
    }

    func start() throws -> ChildProcess {
        try write()
        return try base.startWorker(options: ["--log-part", "apns=debug"])
    }

    func produce(_ count: Int, _ more: String...) throws { try books("produce", count, ["--gateway"] + more) }

    /// Waits until everything is committed, stops the worker, and compares the books.
    func finish(_ worker: ChildProcess, _ count: Int, _ more: String...) throws {
        try base.settle(worker)
        try base.stop(worker)
        try books("gateway_audit", count, ["--simulator", simulator.control] + more)
    }

    private func books(_ command: String, _ count: Int, _ more: [String]) throws {
        try base.books(command, ["--count", "\(count)", "--bad-every", "\(badEvery)"] + more)
    }

    /// Returns the number of an app's notifications that have results.
    func results(of app: String) throws -> Int {
        let results = try base.resultObjects().filter { $0["app"] as? String == app }
        return Set(results.compactMap { $0["device_token"] as? String }).count
    }
}

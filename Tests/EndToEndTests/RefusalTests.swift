import TestSupport
import Testing

extension EndToEnd {
    /// A server always refuses single notifications, or every connection of an app. Those notifications wait in a tier,
    /// and nothing else waits with them.
    @Suite struct RefusalTests {
        /// The prefixes of device tokens whose stream is always refused, or is always above the last stream of a
        /// GOAWAY.
        @Test(.needs(.worker, .broker, .kcat), arguments: ["fa17f0030", "fa17f0130"])
        func `A notification that is always refused delays no other notification`(prefix: String) throws {
            let scene = try Scene("refusal", partitions: 1)
            let worker = try scene.startWorker()
            var good = 0
            /// Writes good tokens around refused ones, and waits for the results of the good ones.
            func write(_ count: Int, around refused: Int) throws {
                let first = good
                good += count
                try scene.send(
                    to: deviceTokens(count / 2, from: first) + deviceTokens(refused, prefix, from: first)
                        + deviceTokens(count - count / 2, from: first + count / 2))
                try scene.awaitResults(good, of: worker)
            }
            try write(20, around: 0)
            try write(100, around: 1)
            // The refused notifications are retried from the tier in the meantime.
            try scene.await(scene.configuration.retry, holds: 1, of: worker)
            try write(10, around: 0)
            // The commit passes the refused notifications.
            try scene.settleRequests(worker)
            try write(10, around: 0)
            try scene.stop(worker)
            let results = try scene.resultsWithKcat()
            #expect(results.count == good)
            #expect(results.allSatisfy { $0.hasSuffix(" outcome=accepted") })
        }

        /// A host keeps its connections open and does not answer, or allows no streams. The first answer ends the
        /// problem.
        @Test(
            .needs(.worker, .broker, .kcat),
            arguments: [
                ("fault=refuse-stream@1", "ends every request's stream"),
                ("fault=no-answer@1", "accepts requests but answers none"), ("streams=0", "allow no stream"),
            ]
                + (Long.isWanted
                    ? [
                        ("fault=reset-stream@1", "ends every request's stream"),
                        ("fault=blackhole@1", "accepts requests but answers none"),
                    ] : []))
        func `A host that does not answer is reported, and delays no other app`(fault: String, words: String) throws {
            // There are two apps, each with its own simulator. The simulator of shop has the fault.
            let scene = try Scene("unanswered", partitions: 1)
            let port = try scene.startSimulator().port
            let faulty = try scene.startSimulator()
            scene.configuration.apps = scene.configuration.app(named: "annex", port: port)
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            func write(_ app: String, _ numbers: Range<Int>) throws {
                try scene.send(
                    to: deviceTokens(numbers.count, from: numbers.lowerBound),
                    headers: ["apns-topic=com.example.\(app)"])
            }
            try write("shop", 0..<50)
            try write("annex", 100..<150)
            try scene.awaitResults(100)
            try faulty.set(fault)
            try write("shop", 50..<60)
            // The status reports shop with these words, and does not report annex.
            try pages.await("/status") {
                $0.1.contains(#""health":"degraded""#) && $0.1.contains(#""subject":"app shop""#)
                    && $0.1.contains(words) && !$0.1.contains(#""subject":"app annex""#)
            }
            try pages.await("/metrics", says: "\napns_worker_degraded 1\n")
            func reports() -> Int {
                worker.text.split(separator: "\n").count { $0.contains("degraded") && $0.contains("app shop") }
            }
            try eventually("a log line about app shop", of: worker) { reports() > 0 }
            #expect(reports() == 1, "\(worker.text.suffix(4_000))")
            try write("annex", 150..<160)
            try scene.awaitResults(110)
            try faulty.set(fault == "streams=0" ? "streams=1000" : "fault=")
            try write("shop", 60..<70)
            try pages.await("/status", says: #""health":"fine""#)
            try worker.waitFor("problem resolved")
            try scene.awaitResults(130, of: worker)
            try scene.stop(worker)
        }

        /// SETTINGS_MAX_CONCURRENT_STREAMS changes from 1,000 to 1 and back several times. Streams above a new limit
        /// are refused, and their requests are sent again.
        @Test(.needs(.worker, .broker, .python))
        func `Changing stream limits do not stall sending`() throws {
            let scene = try Scene("streams")
            // With one stream each, the connections send at most about 40 requests a second, so a backlog grows.
            let simulator = try scene.startSimulator("--latency", "100ms")
            let worker = try scene.startAssignedWorker()
            let rate = Long.isWanted ? 5_000 : 500
            let rounds = Long.isWanted ? 10 : 3
            let load = try scene.startLoad(rate * 3 * rounds, rate: rate, "--plain")
            try simulator.awaitRequests(rate / 2)
            for _ in 0..<rounds {
                try simulator.set("streams=1")
                try simulator.awaitAccepted(more: 20)
                try simulator.set("streams=1000")
                // This includes the backlog and new records.
                try simulator.awaitAccepted(more: rate / 2)
            }
            #expect(try load.wait() == .exited(0), "\(load.text.suffix(500))")
            try scene.settle(worker)
            #expect(!worker.text.contains("disconnected"), "\(worker.text.suffix(4_000))")
            try scene.stop(worker)
            // Nothing is in doubt or sent twice, because a refused stream was not processed.
            try scene.audit("--simulator", simulator.control)
        }
    }
}

import Foundation
import TestSupport
import Testing

extension EndToEnd.Chaos {
    /// `Books/chaos.py`, for a minute; by hand it runs for hours:
    /// `Books/chaos.py --minutes 30 --seed 7 --rate 20000`.
    @Suite(.serialized) struct ChaosTests {
        static let program = URL(fileURLWithPath: Scene.program).deletingLastPathComponent()
            .appending(path: "chaos.py").path

        private func chaos(_ arguments: String...) throws -> Scene.Finished {
            let ended = try Scene.run(
                Tool.python.path(), [Self.program, "--worker", try Tool.worker.path()] + arguments, within: 280)
            print(ended.text)
            return ended
        }

        @Test(.needs(.python))
        func theAuditFindsEachKindOfFault() throws {
            let ended = try Scene.run(Tool.python.path(), [Self.program, "--selftest"])
            #expect(ended.ending == .exited(0), "\(ended.text)")
        }

        /// Kills, of the broker and the server too, and cuts: nothing is lost; what is sent again may be, and says
        /// so.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .timeLimit(.minutes(5)))
        func nothingIsLost() throws {
            let seed = ProcessInfo.processInfo.environment["APNS_WORKER_E2E_CHAOS"] ?? "35"
            let ended = try chaos(
                "--minutes", "0.4", "--every", "8", "--rate", "1000", "--seed", seed, "--poison", "0", "--no-topics",
                "--no-outages", "--no-apps", "--no-gateways")
            #expect(ended.ending == .exited(0), "\(ended.text)")
            #expect(ended.text.contains("\nlost: 0\n"))
        }

        /// Two apps of the binary protocol beside the others: their gateway closes without a word, shuts down, and says
        /// late what is wrong, while workers are killed. Nothing is lost, and what is sent again says so. `BinaryTests`
        /// shows each by itself.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .long, .timeLimit(.minutes(5)))
        func aGatewaysFaultsLoseNothing() throws {
            let ended = try chaos(
                "--minutes", "0.4", "--every", "8", "--rate", "1000", "--poison", "0", "--no-topics", "--no-outages",
                "--no-apps", "--only", "gateway closes,gateway shuts down,gateway errors late")
            #expect(ended.ending == .exited(0), "\(ended.text)")
            #expect(ended.text.contains("\nlost: 0\n"))
            #expect(ended.text.contains(/\ngateways: \d{4,} results/))
        }

        /// The same while it reads slowly, late or nothing, among poison that closes its connections, and the server's
        /// kills.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .long, .timeLimit(.minutes(6)))
        func aGatewayThatDoesNotReadLosesNothing() throws {
            let ended = try chaos(
                "--minutes", "1.6", "--every", "20", "--rate", "500", "--poison", "500", "--no-topics", "--no-outages",
                "--no-apps", "--only", "gateway silent,gateway slow,gateway late,simulator killed")
            #expect(ended.ending == .exited(0), "\(ended.text)")
            #expect(ended.text.contains("\nlost: 0\n"))
        }

        /// Among kills one record in 200 is one that once stopped, killed or flooded a worker: each has a result or a
        /// dead letter, and what is behind it too.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .long, .timeLimit(.minutes(5)))
        func poisonStopsNothing() throws {
            let ended = try chaos(
                "--minutes", "0.3", "--every", "8", "--rate", "500", "--poison", "200", "--no-topics", "--no-outages",
                "--no-gateways", "--only", "goaways,latency,app paused")
            #expect(ended.ending == .exited(0), "\(ended.text)")
            #expect(ended.text.contains("\nlost: 0\n"))
        }

        /// A request topic and the dead-token topic are deleted and made anew, and rights are taken away for seconds.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .long, .timeLimit(.minutes(5)))
        func topicsAndRightsMayGoAndCome() throws {
            let ended = try chaos(
                "--minutes", "0.6", "--every", "10", "--rate", "500", "--poison", "0", "--no-outages", "--no-apps",
                "--no-gateways", "--only", "topic made anew,dead-token topic made anew,right denied")
            #expect(ended.ending == .exited(0), "\(ended.text)")
            #expect(ended.text.contains("\nlost: 0\n"))
        }

        /// The session is 6 s long: the partitions are lost, and come back to who had them.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .long, .timeLimit(.minutes(5)))
        func aBrokerAwayForLongerThanTheSessionCostsOnlyTime() throws {
            let ended = try chaos("--workers", "1", "--outage", "15", "--minutes", "0.8", "--rate", "500")
            #expect(ended.ending == .exited(0), "\(ended.text)")
            #expect(ended.text.contains("\nlost: 0\n"))
        }

        /// Without a kill or a fault nothing is sent twice; and one result that the audit is not shown is found.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .timeLimit(.minutes(5)))
        func nothingIsSentTwiceWithoutAFault() throws {
            let ended = try chaos(
                "--calm", "--minutes", "0.2", "--every", "4", "--rate", "1000", "--withhold", "5000")
            #expect(ended.ending == .exited(1), "\(ended.text)")
            let findings = ended.text.split(separator: "\n").filter { $0.hasPrefix("FOUND") }.map { $0.prefix(24) }
            #expect(findings.sorted() == ["FOUND 1 x LOST: no resul", "FOUND 1 x the server acc"], "\(ended.text)")
            #expect(ended.text.contains("\nduplicates: 0\nin_doubt: 0\n"))
        }
    }
}

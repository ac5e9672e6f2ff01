import Foundation
import TestSupport
import Testing

extension EndToEnd.Deliveries {
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
        @Test(
            .needs(.worker, .broker, .python),
            .enabled(if: EndToEnd.Commands.AdminTests.kafkaHome != nil, "needs KAFKA_HOME, for a broker of its own"),
            .timeLimit(.minutes(5)))
        func nothingIsLost() throws {
            let seed = ProcessInfo.processInfo.environment["APNS_WORKER_E2E_CHAOS"] ?? "35"
            let ended = try chaos("--minutes", "0.4", "--every", "8", "--rate", "1000", "--seed", seed)
            #expect(ended.ending == .exited(0), "\(ended.text)")
            #expect(ended.text.contains("\nlost: 0\n"))
        }

        /// Without a kill or a fault nothing is sent twice; and one result that the audit is not shown is found.
        @Test(
            .needs(.worker, .broker, .python),
            .enabled(if: EndToEnd.Commands.AdminTests.kafkaHome != nil, "needs KAFKA_HOME, for a broker of its own"),
            .timeLimit(.minutes(5)))
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

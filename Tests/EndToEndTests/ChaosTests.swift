import TestSupport
import Testing

extension EndToEnd {
    /// Runs `Books/chaos.py` for about a minute each. It can also run for hours by hand: `Books/chaos.py --minutes 30
    /// --seed 7 --rate 20000`.
    @Suite(.serialized, .ownBroker, .long) struct ChaosTests {
        private func chaos(_ arguments: String) throws -> Scene.Finished {
            let words = arguments.split(separator: " ").map { String($0).replacing("_", with: " ") }
            let ended = try ChildProcess.run(
                Tool.python.path(), [Scene.book("chaos.py"), "--worker", try Tool.worker.path()] + words, within: 600)
            print(ended.text)
            return ended
        }

        /// The faults of each run and its arguments, in which `_` is a space in a fault's name.
        private static let runs = [
            // Workers, the broker and the server are killed, and connections are cut.
            (
                "kills and cuts",
                "--minutes 0.4 --every 8 --rate 1000 --seed 35 --poison 0 "
                    + "--only cuts,resets,odd_answers,blackhole,broker_killed,simulator_killed,disk_full"
            ),
            // Two of the apps use the binary protocol. Their gateway closes without an answer, shuts down, and answers
            // errors late, while workers are killed. `BinaryTests` test each fault alone.
            (
                "a gateway's faults",
                "--minutes 0.4 --every 8 --rate 1000 --poison 0 "
                    + "--only gateway_closes,gateway_shuts_down,gateway_errors_late"
            ),
            // The gateway reads slowly or not at all, and poisonous records close its connections.
            (
                "a gateway that does not read",
                "--minutes 1.6 --every 20 --rate 500 --poison 500 "
                    + "--only gateway_silent,gateway_slow,simulator_killed"
            ),
            // One record in 200 is of a kind that once stopped, killed or flooded a worker.
            ("poison", "--minutes 0.3 --every 8 --rate 500 --poison 200 --only goaways,latency,app_paused"),
            // A request topic and the dead-token topic are recreated, and rights are revoked for seconds.
            (
                "topics and rights",
                "--minutes 0.6 --every 10 --rate 500 --poison 0 "
                    + "--only topic_made_anew,dead-token_topic_made_anew,right_denied"
            ),
            // The session timeout is 6 s, so partitions are lost and return to the same owner.
            ("a broker that is away", "--workers 1 --outage 15 --minutes 0.8 --rate 500"),
        ]

        /// Nothing is lost, and every resend is counted as in doubt.
        @Test(.needs(.worker, .broker, .python), arguments: runs)
        func `No notification is lost under any fault`(name: String, arguments: String) throws {
            try chaos(arguments).expect(0, "\nlost: 0\n")
        }

        /// The audit also detects one result that is withheld from it.
        @Test(.needs(.worker, .broker, .python))
        func `No notification is sent twice without a fault`() throws {
            let ended = try chaos("--calm --minutes 0.2 --every 4 --rate 1000 --withhold 5000")
                .expect(1, "\nduplicates: 0\nin_doubt: 0\n")
            let findings = ended.text.split(separator: "\n").filter { $0.hasPrefix("FOUND") }.map { $0.prefix(24) }
            #expect(findings.sorted() == ["FOUND 1 x LOST: no resul", "FOUND 1 x the server acc"], "\(ended.text)")
        }
    }
}

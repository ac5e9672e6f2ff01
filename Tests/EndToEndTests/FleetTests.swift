import TestSupport
import Testing

extension EndToEnd.Troubles {
    /// Workers of one group join late and leave in the middle of large envelopes. The audit finds what is lost and, by
    /// the server's own count, what is sent twice.
    @Suite(.serialized) struct FleetTests {
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func oneJoinsLateAndTheFirstLeaves() throws {
            let fleet = try Fleet("pair")
            try fleet.join("first")
            try fleet.join("second", after: 0.02)
            try fleet.end("first")
            try fleet.finish()
        }

        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func twoJoinLateAndTwoLeave() throws {
            let fleet = try Fleet("three")
            try fleet.join("first")
            try fleet.join("second", after: 0.02)
            try fleet.join("third")
            try fleet.end("second")
            try fleet.end("first")
            try fleet.finish()
        }

        /// A static member that comes back under its name has its partitions at once; the other never stops.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func aStaticMemberComesBack() throws {
            let fleet = try Fleet("static")
            try fleet.join("first", kafka: "group_instance_id: first")
            let second = try fleet.join("second", after: 0.02, kafka: "group_instance_id: second")
            try fleet.end("first")
            try fleet.join("first", kafka: "group_instance_id: first")
            #expect(!second.text.contains("partitions revoked"), "\(second.text)")
            try fleet.finish()
        }

        /// What the successor of a killed member sends again was in flight, or settled since the last commit; each says
        /// that it is in doubt.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func aKilledMembersSuccessorRepeatsWhatWasInFlight() throws {
            let fleet = try Fleet("killed")
            try fleet.join("first", kafka: "group_instance_id: first")
            try fleet.end("first", by: "KILL")
            let repeatable = try fleet.scene.repeatable(fleet.simulator)
            // At least one envelope was cut in two, so there is something to repeat and much that must not be.
            #expect(repeatable > 0)
            #expect(repeatable < Fleet.notifications / 8)
            try fleet.join("first", kafka: "group_instance_id: first")
            try fleet.finish("--crashed", "--repeats-at-most", "\(repeatable)")
        }

        /// Two have one name by mistake: the broker puts the first one out, for good. What it has on connections
        /// settles and has its results; what it could not commit the other sends again, and says so.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func aMemberWhoseNameIsTakenLetsItsOwnSettle() throws {
            let fleet = try Fleet("fenced")
            try fleet.join("first", kafka: "group_instance_id: same")
            try fleet.join("second", after: 0.05, kafka: "group_instance_id: same")
            let said = try fleet.failed("first")
            #expect(said.contains("cannot go on; what is in flight has time to settle"), "\(said)")
            #expect(said.contains("Static consumer fenced"), "\(said)")
            #expect(!said.contains("something does not end"), "\(said)")
            try fleet.finish("--crashed", "--repeats-at-most", "\(Fleet.notifications / 8)")
        }

        /// Partitions move one by one. On a newer librdkafka: on 2.0.2 a commit during such a rebalance can lose the
        /// assignment.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(10)))
        func partitionsMoveOneByOneOnANewerClientLibrary() throws {
            let newer = ["LD_LIBRARY_PATH": try NewerClientLibrary.folder()]
            let fleet = try Fleet("cooperative")
            try fleet.join("first", kafka: "assignment: cooperative", environment: newer)
            try fleet.join("second", after: 0.02, kafka: "assignment: cooperative", environment: newer)
            try fleet.end("first")
            try fleet.finish()
        }
    }
}

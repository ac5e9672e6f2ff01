import PushRecords
import Testing

@testable import Delivery

struct TurnTests {
    private static let ms: Int64 = 1_000_000

    @Test func `A notification needs four turns, each as soon as it is told of the one before`() throws {
        let rig = Rig()
        let partition = rig.assign()
        // The horizon is committed, and what was read waits for it.
        rig.play.records = [(partition, 0, "a")]
        try rig.turn()
        #expect(rig.play.sent == [] && rig.play.commits == [1, 0])
        // The reply comes before anything is sent.
        try rig.turn()
        #expect(rig.play.sent == ["a"])
        // What was answered is written.
        rig.play.answers = ["a"]
        try rig.turn()
        #expect(rig.play.written.map(\.outcome) == [.accepted])
        // What was acknowledged is committed.
        rig.wait(ms: 50)
        try rig.turn()
        #expect(rig.play.commits == [1, 0])
        #expect(rig.machine.status(of: partition)?.watermark == 1)
    }

    @Test(
        arguments: [
            (DeliveryTurn.WakeUps.kafka, true), (.leaving, true), (.transports, false), (.time, false),
            (.unread, false), ([], false), ([.time, .kafka], true),
        ] as [(DeliveryTurn.WakeUps, Bool)])
    func `Kafka is served when it rang, when a group is being left, and every half a second`(
        wakeUps: DeliveryTurn.WakeUps, isServed: Bool
    ) throws {
        let rig = Rig()
        try rig.turn()
        rig.wait(ms: 499)
        try rig.turn(wokenBy: wakeUps)
        #expect(rig.play.steps.contains("serve") == isServed)
        #expect(rig.play.steps.contains("acknowledge") == isServed)
        #expect(rig.play.steps.contains("read"))
        rig.wait(ms: isServed ? 500 : 1)
        try rig.turn(wokenBy: [])
        #expect(rig.play.steps.contains("serve"))
    }

    @Test(arguments: [true, false])
    func `Kafka is served, too, when something is due without news`(isOfRequests: Bool) throws {
        let rig = Rig()
        try rig.turn()
        let dueNs = rig.now.ns + 10 * Self.ms
        if isOfRequests { rig.play.requestsDueNs = dueNs } else { rig.play.recordsDueNs = dueNs }
        rig.wait(ms: 9)
        #expect(try rig.turn(wokenBy: .time).deadlineNs == dueNs)
        #expect(!rig.play.steps.contains("serve"))
        rig.wait(ms: 1)
        // What was done and is due still waits for something else than time.
        #expect(try rig.turn(wokenBy: .time).deadlineNs == rig.now.ns + DeliveryTurn.leastPauseNs)
        #expect(rig.play.steps.contains("serve"))
    }

    @Test func `Nothing is read while what was read before is not written; everything else goes on`() throws {
        let (rig, partition) = Rig.ready()
        rig.play.records = [(partition, 0, "a")]
        rig.play.isBackedUp = true
        #expect(try rig.turn().hasMore == false)
        #expect(rig.play.steps == ["deliver", "serve", "acknowledge", "send", "recall", "publish", "commit"])
        #expect(rig.play.records.count == 1)
        rig.play.isBackedUp = false
        try rig.turn()
        #expect(rig.play.steps == ["deliver", "serve", "acknowledge", "read", "send", "recall", "publish", "commit"])
        #expect(rig.play.sent == ["a"])
    }

    @Test func `A client that cannot go on ends the turn: nothing more is read, sent or committed`() throws {
        let rig = Rig()
        rig.play.stops = true
        #expect(throws: Rig.Stop.self) { try rig.turn() }
        #expect(rig.play.steps == ["deliver", "serve"])
    }

    @Test
    func `The next turn comes with the machine's deadline, or after half a second; what is left unread asks for one`()
        throws
    {
        let rig = Rig { $0.maxOpen = 2 }
        let first = try rig.turn()
        #expect(first.deadlineNs == rig.now.ns + DeliveryTurn.serveEveryNs)
        #expect(!first.hasMore && first.events.isEmpty)
        let partition = rig.assign()
        rig.play.records = (0..<3).map { (partition, Int64($0), "d\($0)") }
        try rig.turn()
        let second = try rig.turn()
        #expect(second.hasMore)
        let machineNs = rig.machine.nextDeadlineNs ?? .max
        #expect(
            second.deadlineNs
                == max(min(machineNs, rig.now.ns + DeliveryTurn.serveEveryNs), rig.now.ns + DeliveryTurn.leastPauseNs))
    }
}

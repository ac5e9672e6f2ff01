import PushRecords
import Testing

@testable import Delivery

struct TurnTests {
    private static let ms: Int64 = 1_000_000
    private static let allSteps = ["deliver", "serve", "acknowledge", "read", "send", "recall", "publish", "commit"]

    /// A Kafka client and transports that record which step is called.
    private final class Owner: RequestSource, Transports, RecordSink {
        typealias Failure = Stop

        struct Stop: Error {}

        let rig = Rig()
        var turn = DeliveryTurn()
        var isBackedUp = false
        var hasMore = false
        var stops = false
        var requestsDueNs: Int64?
        var nextDeadlineNs: Int64?
        var steps: [String] = []

        @discardableResult
        func run(hasKafkaNews: Bool = true, afterMs waitMs: Int64 = 0) throws -> DeliveryTurn.End {
            if waitMs > 0 { rig.wait(ms: waitMs) }
            steps = []
            turn.hasKafkaNews = hasKafkaNews
            return try turn.run(
                &rig.machine, requests: self, transports: self, records: self, now: rig.now)
        }

        func deliver(to machine: inout DeliveryMachine, now: DeliveryTime) { steps.append("deliver") }
        func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) throws(Stop) -> DeliveryTime {
            steps.append("serve")
            if stops { throw Stop() }
            return now
        }
        func acknowledge(_ machine: inout DeliveryMachine, now: DeliveryTime) { steps.append("acknowledge") }
        func read(into machine: inout DeliveryMachine, now: DeliveryTime) -> Bool {
            steps.append("read")
            return hasMore
        }
        func send(from machine: inout DeliveryMachine, now: DeliveryTime) { steps.append("send") }
        func recall(from machine: inout DeliveryMachine) { steps.append("recall") }
        func publish(_ machine: inout DeliveryMachine, now: DeliveryTime) { steps.append("publish") }
        func commit(_ machine: inout DeliveryMachine, now: DeliveryTime) { steps.append("commit") }
        func nextDeadlineNs(now: DeliveryTime) -> Int64? { requestsDueNs }
    }

    @Test(arguments: [true, false])
    func `Kafka is served when it has news, and otherwise every half second`(isServed: Bool) throws {
        let owner = Owner()
        try owner.run()
        try owner.run(hasKafkaNews: isServed, afterMs: 499)
        #expect(owner.steps == Self.allSteps.filter { isServed || $0 != "serve" && $0 != "acknowledge" })
        try owner.run(hasKafkaNews: false, afterMs: isServed ? 500 : 1)
        #expect(owner.steps == Self.allSteps)
    }

    @Test(arguments: [true, false])
    func `Kafka is also served when work is due without news`(isOfRequests: Bool) throws {
        let owner = Owner()
        try owner.run()
        let dueNs = owner.rig.now.ns + 10 * Self.ms
        if isOfRequests { owner.requestsDueNs = dueNs } else { owner.nextDeadlineNs = dueNs }
        #expect(try owner.run(hasKafkaNews: false, afterMs: 9).deadlineNs == dueNs)
        #expect(!owner.steps.contains("serve"))
        // The work is still due after the serve, because it waits for something other than time.
        #expect(
            try owner.run(hasKafkaNews: false, afterMs: 1).deadlineNs == owner.rig.now.ns + DeliveryTurn.leastPauseNs)
        #expect(owner.steps.contains("serve"))
    }

    @Test func `While too many records wait to be written nothing is read, and everything else continues`() throws {
        let owner = Owner()
        owner.hasMore = true
        owner.isBackedUp = true
        #expect(try owner.run().hasMore == false)
        #expect(owner.steps == Self.allSteps.filter { $0 != "read" })
        owner.isBackedUp = false
        #expect(try owner.run().hasMore, "unread records must request another turn")
    }

    @Test func `A client that failed fatally ends the turn, and nothing more is read, sent or committed`() throws {
        let owner = Owner()
        owner.stops = true
        #expect(throws: Owner.Stop.self) { try owner.run() }
        #expect(owner.steps == ["deliver", "serve"])
    }

    @Test func `The next turn runs at the machine's deadline, or after half a second`() throws {
        let owner = Owner()
        #expect(try owner.run().deadlineNs == owner.rig.now.ns + DeliveryTurn.serveEveryNs)
        let partition = owner.rig.assignReady()
        owner.rig.deliver(partition, 0, "a")
        let machineNs = owner.rig.machine.nextDeadlineNs
        #expect(try owner.run().deadlineNs == machineNs && machineNs != nil)
    }
}

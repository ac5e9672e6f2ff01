import Delivery
import PushRecords

/// The benchmarks `machine` and `fanout`, which run the delivery machine in the worker's turns (`DeliveryTurn`). A fake
/// transport accepts every request and a fake Kafka acknowledges every record by the next turn.
///
/// In each turn of 10 ms, each of 8 partitions provides 128 notifications (`machine`) or 100 (`fanout`).
final class MachinePart: PartRun {
    private var machine: DeliveryMachine
    private var turns = DeliveryTurn()
    private var now = DeliveryTime(ns: 1_000_000_000, wallMs: 1_800_000_000_000)
    private var partitions: [PartitionID] = []
    private var nextOffset: Int64 = 0
    /// The records that the delivery machine receives in each turn.
    private let records: [LentRecord]
    private let recordsPerPartition: Int

    /// The requests in flight to APNs. `unacknowledged` contains the results in flight to Kafka.
    private var flying: [OutgoingRequest] = []
    private var unacknowledged: [NotificationID] = []
    private var committing: [CommitOutcome] = []
    /// A sum over fields of all results, which prevents the compiler from removing the reads.
    private var resultBytes = 0

    private static let partitionCount = 8
    private static let turnMs: Int64 = 10

    init(tokensPerRecord: Int) {
        let app = AppRoute(name: "bench", environment: .production, bundleIDs: [Traffic.bundleID])
        machine = DeliveryMachine(settings: MachineSettings(), apps: [app])
        if tokensPerRecord == 1 {
            recordsPerPartition = DeliveryTurn.partitionRecords
            let payload = PartInputs.lasting(Traffic.payload(7))
            let headers = PartInputs.headers(PartInputs.usualHeaders)
            records = PartInputs.tokens(Self.partitionCount * DeliveryTurn.partitionRecords).map {
                LentRecord(key: $0, value: payload, headers: headers)
            }
        } else {
            recordsPerPartition = 1
            let tokens = PartInputs.tokens(Self.partitionCount * tokensPerRecord)
            let headers = PartInputs.headers([])
            records = (0..<Self.partitionCount).map { record in
                let list = tokens[record * tokensPerRecord..<(record + 1) * tokensPerRecord]
                return LentRecord(
                    key: .nothing, value: PartInputs.envelope(Array(list)), headers: headers)
            }
        }
        machine.setCapacity(AppIndex(0), requests: 4_096, now: now)
        for number in 0..<Int32(Self.partitionCount) {
            partitions.append(
                machine.assign(
                    topic: "apns.requests", partition: number, role: .requests(weight: 1), committedOffset: nil,
                    metadata: .nothing, logEnd: 0))
        }
    }

    var count: Int { machine.counters.notificationsSettled }

    func prepare() {
        now.ns += Self.turnMs * 1_000_000
        now.wallMs += Self.turnMs
    }

    func turn() throws {
        turns.hasKafkaNews = true
        _ = try turns.run(&machine, requests: self, transports: self, records: self, now: now)
    }
}

extension MachinePart: Transports {
    /// Delivers the completions of the previous turn in one batch, as a transport does.
    func deliver(to machine: inout DeliveryMachine, now: DeliveryTime) {
        guard !flying.isEmpty else { return }
        var batch = CompletionBatch(app: AppIndex(0))
        batch.completions.reserveCapacity(flying.count)
        for request in flying {
            batch.completions.append(
                Completion(id: request.id, kind: .answered, status: 200, sentAtMs: now.wallMs - Self.turnMs))
        }
        flying = []
        machine.handle(batch, now: now)
    }

    func send(from machine: inout DeliveryMachine, now: DeliveryTime) {
        machine.sends(now: now) { _, requests in flying = requests }
    }

    func recall(from machine: inout DeliveryMachine) { machine.recalls { _, _ in } }
}

extension MachinePart: RequestSource {
    typealias Failure = BenchFailure

    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) -> DeliveryTime {
        if !committing.isEmpty { machine.commitFinished(of: .requests, committing, now: now) }
        committing = []
        return now
    }

    func read(into machine: inout DeliveryMachine, now: DeliveryTime) throws(BenchFailure) -> Bool {
        for (index, id) in partitions.enumerated() {
            var room = 0
            for place in 0..<recordsPerPartition {
                let record = records[index * recordsPerPartition + place]
                if room == 0 { room = min(machine.room(for: id), DeliveryTurn.roomRecords) }
                guard room > 0 else { throw BenchFailure("the delivery machine has no room for a record") }
                room -= 1
                let receipt = machine.receive(
                    id, offset: nextOffset + Int64(place), timestampMs: now.wallMs - 1, key: record.key,
                    value: record.value, headers: record.headers, now: now)
                guard case .taken = receipt else { throw BenchFailure("the delivery machine did not accept a record") }
            }
        }
        nextOffset += Int64(recordsPerPartition)
        return true
    }

    func nextDeadlineNs(now: DeliveryTime) -> Int64? { nil }

    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        committing = machine.takeCommit(of: .requests, now: now).map { _ in .acknowledged }
    }
}

extension MachinePart: RecordSink {
    var isBackedUp: Bool { false }

    var nextDeadlineNs: Int64? { nil }

    func acknowledge(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        for id in unacknowledged { machine.acknowledged(id, now: now) }
        unacknowledged.removeAll(keepingCapacity: true)
    }

    func publish(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        while let id = machine.nextProduction(for: .results) {
            resultBytes &+= machine.withResult(id, now: now) { content, ending in
                content.token.count + content.payload.count + Int(ending.status)
            }
            machine.produced(id, to: .results)
            unacknowledged.append(id)
        }
    }
}

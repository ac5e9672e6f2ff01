import Delivery
import PushRecords

/// The benchmarks `parse` and `envelope`, which parse and validate a record and normalize its token as the worker does.
final class ParsePart: PartRun {
    private(set) var count = 0
    private var parser = RequestParser()
    private let records: [LentRecord]
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 8)

    init(isEnvelope: Bool) {
        let payload = PartInputs.lasting(Traffic.payload(7))
        let headers = PartInputs.headers(isEnvelope ? [] : PartInputs.manyHeaders)
        records = PartInputs.tokens(256).map {
            isEnvelope
                ? LentRecord(key: .nothing, value: PartInputs.envelope([$0]), headers: headers)
                : LentRecord(key: $0, value: payload, headers: headers)
        }
    }

    deinit { room.deallocate() }

    func turn() throws {
        for record in records {
            let request = parser.parse(key: record.key, value: record.value, headers: record.headers, role: .request)
            guard request.target == .device, !request.isInvalid,
                DeviceToken.normalize(request.token, into: room).failure == .none
            else { throw BenchFailure("a valid request was refused: \(request.detail.text)") }
        }
        count += records.count
    }
}

/// The benchmark `results`, which encodes the key, value and headers of an accepted notification's result.
final class ResultsPart: PartRun {
    private(set) var count = 0
    private var writer = ResultWriter(apps: [RecordApp(name: "bench", environment: .production)])
    private let tokens = PartInputs.tokens(256)
    private let topic = PartInputs.lasting(Traffic.bundleID)
    private let requests = PartInputs.lasting("apns.requests")
    private let payload = PartInputs.lasting(Traffic.payload(7))
    private let noHeaders = PartInputs.headers([])
    private var resultBytes = 0

    func turn() throws {
        let hash = DerivedID.topicHash(requests)
        for token in tokens {
            let offset = 1_000_000 + Int64(count)
            let content = NotificationContent(
                token: token, isBroadcast: false,
                headers: ParsedRequest.Headers(
                    topic: topic, priority: 10,
                    apnsID: DerivedID.make(topicHash: hash, partition: 3, offset: offset, index: 0)),
                app: 0, payload: payload,
                request: RequestPlace(topic: requests, partition: 3, offset: offset, index: 0),
                requestKey: .nothing, requestedAtMs: 1_800_000_000_000, copiedHeaders: noHeaders)
            let ending = Ending(
                outcome: .accepted, status: 200, attempts: 1, inDoubt: 0, sentAtMs: 1_800_000_000_003,
                settledAtMs: 1_800_000_000_007)
            let record = writer.write(content, ending)
            resultBytes &+= record.value.count &+ record.headers.count
            count += 1
        }
        guard resultBytes > 0 else { throw BenchFailure("the encoded results are empty") }
    }
}

/// The benchmark `ledger`, which runs the ledger of one partition at full load, with a commit in each turn. Seven of
/// eight records settle in the turn that receives them. The eighth settles in the next turn.
final class LedgerPart: PartRun {
    private(set) var count = 0
    private var ledger = Partition.Offsets(committed: 0, map: CommitMap())
    private var horizon = Partition.SendHorizon(minimum: 500)
    private var map = CommitMapWriter()
    private var nextOffset: Int64 = 0
    /// The records of the previous turn that have not settled yet.
    private var late: [Int] = []
    /// The ledger position of each record. In the worker, the delivery machine stores these positions.
    private var positions = [UInt64](repeating: 0, count: LedgerPart.names)

    private static let batch = 256
    private static let names = 1 << 16

    private func settle(_ record: Int) {
        ledger.settle(positions[record]) { record, position in positions[Int(record.number)] = position }
    }

    func turn() throws {
        let first = Int(nextOffset)
        for _ in 0..<Self.batch {
            horizon.advance(to: nextOffset)
            let record = Int(nextOffset) & (Self.names - 1)
            guard ledger.receive(nextOffset, record: RecordSlot(UInt32(record))) != nil
            else { throw BenchFailure("the ledger has already received offset \(nextOffset)") }
            positions[record] = ledger.lastPosition
            nextOffset += 1
        }
        for record in late { settle(record) }
        count += late.count
        late.removeAll(keepingCapacity: true)
        // Settle out of order, as answers arrive over several connections. 93 is odd and the batch size is a power of
        // two, so each record occurs once.
        for step in 0..<Self.batch {
            let place = step &* 93 & (Self.batch - 1)
            let record = (first + place) & (Self.names - 1)
            if place & 7 == 3 {
                late.append(record)
            } else {
                settle(record)
                count += 1
            }
        }
        guard let base = ledger.committable else { throw BenchFailure("there is nothing to commit") }
        let next = horizon.next(from: base)
        horizon.sent(naming: next)
        map.start(base: base, limit: 4_000)
        ledger.write(to: &map) { _ in nil }
        map.finish(horizon: next)
        guard !map.isFull, !map.text.isEmpty else { throw BenchFailure("the commit map does not fit") }
        horizon.acknowledge(next)
    }
}

import Delivery

/// `ledger`: the books of one partition, as between two commits at full load. What a turn receives settles in it, but
/// for one in eight, which settles in the next, before the others.
final class LedgerPart: PartRun {
    private(set) var count = 0
    private var ledger = PartitionLedger(committed: 0, map: CommitMap())
    private var reach = SendHorizon(minimum: 500)
    private var map = CommitMapWriter()
    private var nextOffset: Int64 = 0
    /// Records that are open since the last turn.
    private var late: [Int] = []
    /// Of each record, by its name, as the machine's records have it.
    private var positions = [UInt64](repeating: 0, count: LedgerPart.names)

    private static let batch = 256
    private static let names = 1 << 16

    func prepare() {}

    private func settle(_ record: Int) {
        ledger.settle(positions[record]) { record, position in positions[Int(record.number)] = position }
    }

    func turn() throws {
        let first = Int(nextOffset)
        for _ in 0..<Self.batch {
            reach.advance(to: nextOffset)
            let record = Int(nextOffset) & (Self.names - 1)
            guard case .open = ledger.receive(nextOffset, record: RecordSlot(UInt32(record)))
            else { throw BenchFailure("offset \(nextOffset) is not new") }
            positions[record] = ledger.lastPosition
            nextOffset += 1
        }
        for record in late { settle(record) }
        count += late.count
        late.removeAll(keepingCapacity: true)
        // Out of order, as answers come over several connections: 93 is odd, so that each has its turn.
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
        try commit()
    }

    private func commit() throws {
        guard let base = ledger.committable else { throw BenchFailure("there is nothing to commit") }
        let next = reach.next(from: base)
        reach.sent(naming: next)
        map.start(base: base, limit: 4_000)
        ledger.write(to: &map) { _ in nil }
        map.finish(reach: next.offset)
        guard !map.isFull, !map.text.isEmpty else { throw BenchFailure("the map does not fit") }
        reach.acknowledge(next)
    }
}

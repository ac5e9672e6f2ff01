import Testing

@testable import Delivery

/// After a crash, all records that may have been sent are in doubt. Only few of them were not really sent.
struct DoubtWidthTests {
    /// The arguments are the numbers of tokens in consecutive records.
    @Test(arguments: [[1], [2_000], [20], [1, 1, 1, 500, 1, 1, 1_500, 1, 1, 1, 1]])
    func `A crash leaves at most three times the resent notifications and two records in doubt`(_ tokens: [Int]) throws
    {
        let log = (0..<tokens.count * 12_000 / tokens.reduce(0, +)).map { record in
            (0..<tokens[record % tokens.count]).map { "r\(record).\($0)" }
        }
        let (rig, partition) = Rig.ready(capacity: 200) { $0.horizonMargin = MachineSettings().horizonMargin }
        var read: Int64 = 0
        var delivered: Set<String> = []
        var flights: [(atMs: Int64, devices: [String])] = []
        var commit: Rig.Committed?
        var under: [Rig.Committed] = []
        var waits = 0
        while delivered.count < 5_000 {
            if !under.isEmpty {
                commit = under.last
                rig.finishCommit(under.map { _ in .acknowledged })
            }
            while read < log.count, rig.machine.room(for: partition) > 0 {
                rig.receive(partition, read, envelope: log[Int(read)])
                read += 1
            }
            while let first = flights.first, first.atMs <= rig.now.wallMs {
                for device in first.devices { rig.answer(device) }
                flights.removeFirst()
            }
            rig.settle()
            let devices = rig.send()
            if rig.machine.ledger.find(partition).map({ !rig.machine.ledger[$0].behindHorizon.isEmpty }) == true {
                waits += 1
            }
            delivered.formUnion(devices)
            flights.append((rig.now.wallMs + 50, devices))
            under = rig.takeCommit(of: .requests)
            rig.wait(ms: 5)
        }
        // The crash loses the commit in flight.
        let said = try #require(commit)
        let next = Rig(capacity: 500)
        let again = next.assign(committed: said.offset, map: said.map)
        next.commit()
        var marked = 0
        var repeated = 0
        var offset = said.offset
        while offset < log.count || next.machine.gauges.openNotifications > 0 {
            while offset < log.count, next.machine.room(for: again) > 0 {
                next.receive(again, offset, envelope: log[Int(offset)])
                offset += 1
            }
            let devices = next.send()
            for device in devices { next.answer(device) }
            for written in next.settle() {
                if written.inDoubt > 0 { marked += 1 }
                guard delivered.contains(written.token) else { continue }
                repeated += 1
                #expect(written.inDoubt == 1)
            }
            next.commit(afterMs: 20)
        }
        #expect(marked <= 3 * repeated + 2 * (tokens.max() ?? 0), "\(marked) marked, \(repeated) sent again")
        #expect(waits <= 10, "notifications waited for the horizon in \(waits) turns")
    }
}

import Testing

@testable import apns_bench

@Suite struct ReportTests {
    @Test(arguments: [
        (1.0, Finding.Bound.atMost, 1.25, Finding.Standing.holds), (1.25, .atMost, 1.25, .holds),
        (1.3, .atMost, 1.25, .within), (1.4, .atMost, 1.25, .missed), (0.9, .atLeast, 0.9, .holds),
        (0.82, .atLeast, 0.9, .within), (0.8, .atLeast, 0.9, .missed),
    ])
    func aBudgetHoldsOrIsMissed(figure: Double, bound: Finding.Bound, budget: Double, standing: Finding.Standing) {
        #expect(Finding("x", "x", figure, bound, budget).standing == standing)
    }

    @Test func fullProcessorsExcuseWhatIsMissedOnly() {
        #expect(Finding("x", "x", 0.5, .atLeast, 0.9, excuse: "processors full").verdict == ">= 0.90 processors full")
        #expect(Finding("x", "x", 0.95, .atLeast, 0.9, excuse: "processors full").verdict == ">= 0.90 holds")
    }

    @Test(arguments: [
        (0.0, 2, "0.00"), (1.005, 1, "1.0"), (-1.5, 1, "-1.5"), (-0.001, 2, "0.00"), (12_345.678, 0, "12346"),
        (.infinity, 2, "-"), (0.05, 2, "0.05"),
    ])
    func numbersAreRounded(value: Double, digits: Int, text: String) { #expect(fixed(value, digits) == text) }

    @Test func percentilesAreValuesThatWereSeen() {
        var counts = MillisecondCounts()
        #expect(counts.percentiles == nil)
        for ms in 1...1_000 { counts.note(Int64(ms)) }
        #expect(counts.percentiles == Percentiles(p50: 500, p99: 990, p999: 999))
        counts.note(-5)
        counts.note(.max)
        #expect(counts.total == 1_002)
    }

    /// Stretches between samples add up to the whole, and a stretch is only told where there are samples for it.
    @Test func costByStretch() {
        var row = CostRow(name: "payload", title: "", count: 30, usage: Usage(), ratePerSecond: 0)
        for (results, cpuNs) in [(10, 50_000), (21, 105_000), (30, 159_000)] as [(Int, Int64)] {
            row.samples.append(Sample(results: results, ns: 0, cpuNs: cpuNs, residentBytes: 0))
        }
        #expect(row.stretchesUs == [5, 5, 6])
        #expect(row.cpuUs(from: 20, to: 30) == 6)
        #expect(row.cpuUs(from: 30, to: 40) == nil)
    }

    @Test func theSendFloorIsTheLowerOne() {
        var table = CostTable()
        func row(_ name: String, _ us: Int64) -> CostRow {
            CostRow(name: name, title: name, count: 1_000, usage: Usage(userNs: us * 1_000_000), ratePerSecond: 0)
        }
        #expect(table.ratio == nil)
        table.add(row("h2load", 3))
        table.add(row("bare_send", 2))
        table.add(row("kafka_floor", 4))
        table.add(row("payload", 9))
        #expect(table.sendFloor?.name == "bare_send" && table.ratio == 1.5)
        // Of more rounds the least.
        table.add(row("payload", 6))
        table.add(row("payload", 8))
        #expect(table.ratio == 1)
    }

    @Test func wordsOfMeasure() throws {
        #expect(try Subject.list("floors,10-apps") == [.floors, .tenApps])
        #expect(try Subject.list("all").count == Subject.allCases.count)
        #expect(throws: (any Error).self) { try Subject.list("floors,,payload") }
        #expect(throws: (any Error).self) { try Subject.list("everything") }
    }
}

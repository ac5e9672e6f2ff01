import Testing

@testable import Delivery
@testable import Worker

/// The samples behind the rates and plots of the status page.
struct RecentHourTests {
    static func sample(
        at seconds: Int64, accepted: Int = 0, committed: Int64 = 0, lag: Int64? = nil, tookMs: [Int64] = []
    ) -> RecentHour.Sample {
        var counts = LatencyCounts()
        for ms in tookMs { counts.count(ms) }
        let times = (0..<LatencyCounts.bucketCount).map { counts[$0] }
        return RecentHour.Sample(
            takenNs: seconds * 1_000_000_000, outcomes: [accepted, 0, 0, 0, 0, 0], offsetsCommitted: committed,
            settleTimes: times, lag: lag, apps: [(accepted, times)])
    }

    private func hour(_ samples: [RecentHour.Sample]) -> RecentHour {
        var hour = RecentHour()
        for sample in samples { hour.append(sample) }
        return hour
    }

    @Test func `A sample is due every 15 s, and the memory is bounded`() {
        let hour = hour((0..<300).map { Self.sample(at: 15 * $0) })
        #expect(hour.samples.count == 240 && hour.samples[0].takenNs == 900_000_000_000)
        #expect(hour.samples.count { !$0.apps.isEmpty } == 5)
        #expect(!hour.isDue(nowNs: 4_499_000_000_000) && hour.isDue(nowNs: 4_500_000_000_000))
        #expect(RecentHour().isDue(nowNs: 0))
    }

    @Test func `A missing sample and an unknown lag are gaps`() {
        let counts: [(Int64, Int, Int64?)] = [(0, 0, nil), (15, 150, 7), (30, 450, nil), (75, 900, 0), (90, 900, 4)]
        let hour = hour(counts.map { Self.sample(at: $0, accepted: $1, lag: $2) })
        let rates = hour.points { interval in interval.rate { $0.outcomes[0] } }
        #expect(rates.map { $0.value } == [10, 20, 0] && rates.map { $0.ns / 1_000_000_000 } == [15, 30, 90])
        #expect(hour.lags.map { $0.value } == [7, 0, 4] && hour.lags.map { $0.ns / 1_000_000_000 } == [15, 75, 90])
        let plot = HourPlot(title: "Rate", lines: [("none", []), ("all", rates)]) { "\($0)/s" }
        // The newest sample is at the right edge. A value between two gaps is a dot.
        let html = plot.html(nowNs: 90_000_000_000)
        #expect(html.contains(#"<path class="line1" d="M235 50h0L236 0M240 100h0"/>"#), "\(html)")
        #expect(html.contains("up to 20.0/s") && html.contains(#"<span class="line1">all 0.0/s</span>"#), "\(html)")
        #expect(plot.html(nowNs: 120_000_000_000).contains(">all –<"), "the newest value is 30 s old")
        #expect(HourPlot(title: "", lines: [("lag", [])]) { "\($0)" }.html(nowNs: 0).contains("no values yet"))
    }

    @Test(
        arguments: [
            (1_000, 700, 0, 140.0), (1_000, 1_000, 0, nil), (1_000, 1_100, 0, nil), (nil, 700, 0, nil),
            (1_000, nil, 0, nil), (1_000, 700, 6_000, nil), (1_000, 0, 0, nil),
        ] as [(Int64?, Int64?, Int64, Double?)]) func `The time to zero needs a lag that decreases`(
            before: Int64?, lag: Int64?, committed: Int64, seconds: Double?
        )
    {
        let hour = hour([Self.sample(at: 0, lag: before)])
        let now = Self.sample(at: 60, committed: committed, lag: lag)
        #expect(hour.secondsToZero(now, changedNs: 0) == seconds)
        #expect(hour.secondsToZero(now, changedNs: 1) == nil, "the partitions changed after the first sample")
        #expect(hour.secondsToZero(Self.sample(at: 9, lag: 0), changedNs: 0) == nil, "too early")
    }

    @Test func `A quantile counts only durations since the earlier sample`() {
        let earlier = Self.sample(at: 0, tookMs: [5_000, 5_000])
        let later = Self.sample(at: 15, tookMs: [5_000, 5_000] + Array(repeating: 100, count: 9) + [3_000])
        func quantile(_ share: Double) -> Double? {
            RecentHour.Interval(start: earlier, end: later).quantile(share) { $0.settleTimes }
        }
        #expect(quantile(0.9) == 128 && quantile(0.45) == 96 && quantile(1) == 4_096)
        #expect(RecentHour.Interval(start: later, end: later).quantile(0.5) { $0.settleTimes } == nil)
    }
}

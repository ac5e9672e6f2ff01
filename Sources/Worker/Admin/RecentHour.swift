internal import Delivery
internal import PushRecords

/// Samples of the worker's counters and lag, for the rates and plots of the status page. The caller appends a sample
/// every 15 s. The memory is bounded: 240 samples need about 100 kB, and 1.2 kB for each app.
struct RecentHour: Sendable {
    /// The counters since the start, and the lag, at one time.
    struct Sample: Sendable {
        /// The time of the sample (monotonic).
        var takenNs: Int64
        /// The numbers of concluded notifications of all apps, in the order of `Outcome.allCases`.
        var outcomes: [Int]
        var offsetsCommitted: Int64
        /// The counts in the buckets of `LatencyCounts`.
        var settleTimes: [Int]
        /// The lag of the request topics, or `nil` if it is unknown.
        var lag: Int64?
        /// The counters of each app, by its index. Empty in all but the newest samples.
        var apps: [(concluded: Int, answerTimes: [Int])]
    }

    /// The time between two samples, in which the counters increase.
    struct Interval {
        var start: Sample
        var end: Sample

        var seconds: Double { Double(end.takenNs - start.takenNs) / 1e9 }

        func rate<Count: FixedWidthInteger>(_ count: (Sample) -> Count) -> Double {
            Double(count(end) &- count(start)) / seconds
        }

        /// Returns the duration in ms below which the given share of the counted durations lies, interpolated within
        /// its bucket. `nil` if none were counted.
        func quantile(_ share: Double, _ buckets: (Sample) -> [Int]) -> Double? {
            let counts = zip(buckets(end), buckets(start)).map { Double($0 &- $1) }
            var rank = share * counts.reduce(0, +)
            for (bucket, count) in counts.enumerated() where count > 0 {
                if rank <= count {
                    let (low, high) = (bucket == 0 ? 0 : 1 << (bucket - 1), 1 << bucket)
                    return Double(low) + Double(high - low) * rank / count
                }
                rank -= count
            }
            return nil
        }
    }

    typealias Point = (ns: Int64, value: Double)

    static let intervalNs: Int64 = 15_000_000_000
    static let limit = 240
    /// The number of newest samples that have the counters of each app.
    private static let recentLimit = 5
    /// The time between two values from which nothing is known about the time between them. A sample may be missing if
    /// the machine was suspended, or if the core thread was busy.
    static let gapNs: Int64 = 22_500_000_000

    private(set) var samples: [Sample] = []

    func isDue(nowNs: Int64) -> Bool { samples.last.map { nowNs - $0.takenNs >= Self.intervalNs } ?? true }

    mutating func append(_ sample: Sample) {
        if samples.count == Self.limit { samples.removeFirst() }
        samples.append(sample)
        let outdated = samples.count - Self.recentLimit - 1
        if outdated >= 0 { samples[outdated].apps = [] }
    }

    /// Returns the last minute before `end`, or less if no older sample is suitable. `nil` if no sample is 10 s old.
    func minute(to end: Sample, where isSuitable: (Sample) -> Bool = { _ in true }) -> Interval? {
        samples.suffix(Self.recentLimit)
            .first { (10_000_000_000...90_000_000_000).contains(end.takenNs - $0.takenNs) && isSuitable($0) }
            .map { Interval(start: $0, end: end) }
    }

    /// Returns the time until the lag is 0 if it decreases as in the last minute. `nil` if the lag is unknown or does
    /// not decrease, or if the worker commits as many offsets in less than 10 s.
    ///
    /// - Parameter changedNs: The time at which the assigned partitions last changed. An earlier lag includes others.
    func secondsToZero(_ end: Sample, changedNs: Int64) -> Double? {
        guard let lag = end.lag, let minute = minute(to: end, where: { $0.takenNs >= changedNs && $0.lag != nil }),
            let before = minute.start.lag, lag > 0, lag < before, Double(lag) >= 10 * minute.rate(\.offsetsCommitted)
        else { return nil }
        return Double(lag) / (Double(before) - Double(lag)) * minute.seconds
    }

    /// Returns the known values of the last hour. Each is computed from two successive samples.
    func points(_ value: (Interval) -> Double?) -> [Point] {
        zip(samples, samples.dropFirst()).compactMap { start, end in
            guard end.takenNs - start.takenNs < Self.gapNs else { return nil }
            return value(Interval(start: start, end: end)).map { (end.takenNs, $0) }
        }
    }

    var lags: [Point] { samples.compactMap { sample in sample.lag.map { (sample.takenNs, Double($0)) } } }
}

extension RecentHour.Sample {
    init(_ snapshot: WorkerSnapshot) {
        let counters = snapshot.counters
        takenNs = snapshot.takenNs
        outcomes = Outcome.allCases.map { outcome in counters.apps.reduce(0) { $0 &+ $1.outcomes[outcome.index] } }
        offsetsCommitted = counters.offsetsCommitted
        settleTimes = (0..<LatencyCounts.bucketCount).map { bucket in
            counters.apps.reduce(0) { $0 &+ $1.settleTimes[bucket] }
        }
        lag = snapshot.lag(of: .requests)
        // The last entry of the counters, for notifications without an app, has no entry in `snapshot.apps`.
        apps = zip(snapshot.apps, counters.apps).map { _, app in
            (app.outcomes.reduce(0, &+), (0..<LatencyCounts.bucketCount).map { app.answerTimes[$0] })
        }
    }
}

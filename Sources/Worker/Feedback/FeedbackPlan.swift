/// When which app's feedback is to be read. Decides only; no clock, no I/O.
struct FeedbackPlan {
    private struct Entry {
        var intervalNs: Int64
        var dueNs: Int64
        /// When the read began that goes on, or the last one.
        var startedNs: Int64?
        var isReading = false
        /// The last one failed.
        var isRetry = false
    }

    /// By the apps' places.
    private var entries: [Int: Entry] = [:]

    /// Before the first read of an app.
    static let firstNs: Int64 = 1_000_000_000
    /// Before one that failed is tried again, unless its interval is shorter.
    static let retryNs: Int64 = 60_000_000_000
    /// Before one is tried again that Kafka kept from beginning.
    static let postponedNs: Int64 = 5_000_000_000

    /// The apps there are now, and how often they are read; whose interval is 0 is not.
    mutating func set(_ intervals: [Int: Int64], nowNs: Int64) {
        entries = entries.filter { intervals[$0.key] ?? 0 > 0 }
        for (app, intervalNs) in intervals where intervalNs > 0 {
            var entry = entries[app] ?? Entry(intervalNs: intervalNs, dueNs: nowNs + Self.firstNs)
            if entry.intervalNs != intervalNs, let startedNs = entry.startedNs, !entry.isRetry {
                entry.dueNs = startedNs + intervalNs
            }
            entry.intervalNs = intervalNs
            entries[app] = entry
        }
    }

    /// When the next read is to begin; `nil`: none is.
    var nextNs: Int64? { entries.values.lazy.filter { !$0.isReading }.map(\.dueNs).min() }

    /// An app whose read is to begin now.
    func due(nowNs: Int64) -> Int? {
        entries.filter { !$0.value.isReading && $0.value.dueNs <= nowNs }
            .min { ($0.value.dueNs, $0.key) < ($1.value.dueNs, $1.key) }?.key
    }

    mutating func began(_ app: Int, nowNs: Int64) {
        entries[app]?.startedNs = nowNs
        entries[app]?.isReading = true
    }

    /// Its read could not begin.
    mutating func postponed(_ app: Int, nowNs: Int64) { entries[app]?.dueNs = nowNs + Self.postponedNs }

    /// Its read is over; the next is due an interval after it began.
    mutating func ended(_ app: Int, isComplete: Bool, nowNs: Int64) {
        guard var entry = entries[app] else { return }
        let regularNs = (entry.startedNs ?? nowNs) + entry.intervalNs
        entry.isReading = false
        entry.isRetry = !isComplete
        entry.dueNs = isComplete ? regularNs : min(max(regularNs, nowNs + 1_000_000_000), nowNs + Self.retryNs)
        entries[app] = entry
    }
}

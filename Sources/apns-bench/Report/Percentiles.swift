import JSON

/// Three points of a distribution, in milliseconds.
struct Percentiles: Equatable {
    var p50: Double
    var p99: Double
    var p999: Double

    /// - Parameter us: in microseconds; none are zeros.
    init(ofMicroseconds us: [Int32]) {
        let sorted = us.sorted()
        func at(_ share: Double) -> Double {
            let rank = Int((Double(sorted.count) * share).rounded(.up))
            return sorted.isEmpty ? 0 : Double(sorted[min(sorted.count, max(1, rank)) - 1]) / 1_000
        }
        self.init(p50: at(0.5), p99: at(0.99), p999: at(0.999))
    }

    init(p50: Double, p99: Double, p999: Double) {
        self.p50 = p50
        self.p99 = p99
        self.p999 = p999
    }

    func write(to json: inout JSONWriter) {
        json.member("p50", p50)
        json.member("p99", p99)
        json.member("p99.9", p999)
    }
}

/// Counts of whole milliseconds; 80 KB whatever their number.
struct MillisecondCounts {
    /// The last one counts everything above, the first everything below 1.
    private var counts = [Int](repeating: 0, count: 10_001)
    private(set) var total = 0

    mutating func note(_ ms: Int64) {
        counts[Int(min(max(ms, 0), 10_000))] += 1
        total += 1
    }

    /// `nil`: there are none.
    var percentiles: Percentiles? {
        total == 0 ? nil : Percentiles(p50: value(at: 0.5), p99: value(at: 0.99), p999: value(at: 0.999))
    }

    /// The smallest that so large a share does not exceed.
    private func value(at share: Double) -> Double {
        let rank = max(1, Int((Double(total) * share).rounded(.up)))
        var sum = 0
        for (ms, count) in counts.enumerated() {
            sum += count
            if sum >= rank { return Double(ms) }
        }
        return Double(counts.count - 1)
    }
}

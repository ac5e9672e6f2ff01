/// How long something took, counted in classes: a fixed histogram that costs no allocation.
package struct LatencyCounts: Sendable, Equatable {
    package static let bucketCount = 24

    /// How many took a number of milliseconds that is this many bits wide: bucket 0 is below 1 ms, bucket n from
    /// 2^(n-1) up to, and not with, 2^n ms; all that took longer is in the last.
    private var buckets = [24 of Int](repeating: 0)
    /// All their milliseconds.
    package private(set) var sumMs: Int64 = 0

    package init() {}

    /// Negative durations (the wall clock was set back) count as none.
    @inline(__always)
    mutating func count(_ ms: Int64) {
        let ms = max(0, ms)
        buckets[min(Self.bucketCount - 1, Int64.bitWidth - ms.leadingZeroBitCount)] &+= 1
        sumMs &+= ms
    }

    func sum(with other: LatencyCounts) -> LatencyCounts {
        var sum = self
        for bucket in 0..<Self.bucketCount { sum.buckets[bucket] &+= other.buckets[bucket] }
        sum.sumMs &+= other.sumMs
        return sum
    }

    package subscript(bucket: Int) -> Int { buckets[bucket] }

    package var count: Int {
        var all = 0
        for bucket in 0..<Self.bucketCount { all += buckets[bucket] }
        return all
    }

    package static func == (left: LatencyCounts, right: LatencyCounts) -> Bool {
        left.sumMs == right.sumMs && (0..<bucketCount).allSatisfy { left.buckets[$0] == right.buckets[$0] }
    }
}

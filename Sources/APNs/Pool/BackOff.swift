/// How long to wait before the next dial: doubling from 1 s to 60 s, with jitter. A response starts it over, a
/// handshake does not: a server that accepts everybody and answers nobody is not to be dialled fast.
package struct BackOff: Sendable {
    package struct Limits: Sendable {
        package var firstNs: Int64 = 1_000_000_000
        package var lastNs: Int64 = 60_000_000_000

        package init() {}
    }

    private let limits: Limits
    package private(set) var failures = 0

    package init(limits: Limits = Limits()) { self.limits = limits }

    package mutating func succeeded() { failures = 0 }

    /// Counts a failure.
    ///
    /// - Returns: nanoseconds to wait from now, within the limits: three to five quarters of 1, 2, 4, ... times the
    ///   first.
    package mutating func failed(using random: inout some RandomNumberGenerator) -> Int64 {
        let doubled = limits.firstNs.multipliedReportingOverflow(by: 1 << Int64(min(failures, 32)))
        failures += 1
        let base = doubled.overflow ? limits.lastNs : min(doubled.partialValue, limits.lastNs)
        let jittered = base / 4 * 3 + Int64.random(in: 0...(base / 2), using: &random)
        return min(max(jittered, limits.firstNs), limits.lastNs)
    }
}

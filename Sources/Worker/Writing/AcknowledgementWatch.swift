/// Measures how long a topic with outstanding records has received no delivery report. A value type without a clock or
/// I/O.
struct AcknowledgementWatch {
    private var outstanding = 0
    /// The time of the last delivery report, or of a record produced while none was outstanding (monotonic).
    private var quietSinceNs: Int64 = 0

    /// The time without a delivery report after which a topic has a problem. A broker normally acknowledges records in
    /// milliseconds, or in a few seconds while a partition's leadership moves.
    static let namedNs: Int64 = 10_000_000_000

    @inline(__always)
    mutating func handedOver(nowNs: Int64) {
        if outstanding == 0 { quietSinceNs = nowNs }
        outstanding += 1
    }

    /// Registers a delivery report, successful or not.
    @inline(__always)
    mutating func reported(nowNs: Int64) {
        precondition(outstanding > 0, "a delivery report must belong to an outstanding record")
        outstanding -= 1
        quietSinceNs = nowNs
    }

    func isOverdue(nowNs: Int64) -> Bool { outstanding > 0 && nowNs - quietSinceNs >= Self.namedNs }
}

/// Turns a connection's answers around: those to requests that come within 20 ms of the first go out together, last
/// first.
///
/// A value without a clock: it gives each answer the delay that brings it out in front of the one before it.
struct AnswerReversal {
    static let spanNs: Int64 = 20_000_000
    private var startNs: Int64?
    private var count: Int64 = 0

    /// After how long the answer to the request that has just come is due.
    mutating func delayNs(nowNs: Int64) -> Int64 {
        if startNs.map({ nowNs - $0 > Self.spanNs }) ?? true {
            startNs = nowNs
            count = 0
        }
        count += 1
        // Later than any request of the span comes, and earlier than the answer before it.
        return (startNs ?? nowNs) + 2 * Self.spanNs - count - nowNs
    }
}

/// Detects that the thread waited while every stream was in use. A value type. More connections then raise the
/// throughput. They would not if the thread were busy.
struct Saturation: Sendable {
    private static let periodNs: Int64 = 100_000_000

    private var periodBeganNs: Int64 = 0
    private var lastEndedNs: Int64 = 0
    private var wasFull = false
    private var waitedFullNs: Int64 = 0

    /// Records a turn and whether every stream was in use after it. Returns `true` at the end of a period if the thread
    /// waited for more than half of the period with every stream in use.
    mutating func turned(isFull: Bool, beganNs: Int64, endedNs: Int64) -> Bool {
        if periodBeganNs == 0 { periodBeganNs = max(1, beganNs) }
        if wasFull { waitedFullNs += max(0, beganNs - lastEndedNs) }
        wasFull = isFull
        lastEndedNs = endedNs
        let spanNs = endedNs - periodBeganNs
        guard spanNs >= Self.periodNs else { return false }
        let isSaturated = waitedFullNs > spanNs / 2
        periodBeganNs = endedNs
        waitedFullNs = 0
        return isSaturated
    }
}

/// Whether the thread spent its time waiting with every stream taken: a value machine. Then more connections help; a
/// thread that has no time to wait gains nothing by them.
struct Saturation: Sendable {
    private static let periodNs: Int64 = 100_000_000

    private var periodBeganNs: Int64 = 0
    private var lastEndedNs: Int64 = 0
    private var wasFull = false
    private var waitedFullNs: Int64 = 0

    /// Records a turn, after which every stream was taken or not. Returns true at the end of a period of which over
    /// half was spent waiting with every stream taken.
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

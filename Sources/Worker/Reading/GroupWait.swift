/// A wait for a group's coordinator that is said once, where it lasts. Decides only; no clock, no I/O.
struct GroupWait {
    private var sinceNs: Int64?
    private var isSaid = false

    /// What is over sooner is not worth a line.
    static let quietNs: Int64 = 1_500_000_000

    /// It waits, from the first of these calls on.
    mutating func begin(nowNs: Int64) {
        if sinceNs == nil { sinceNs = nowNs }
    }

    mutating func end() { self = GroupWait() }

    /// True once, when it has lasted.
    mutating func mustSay(nowNs: Int64) -> Bool {
        guard let sinceNs, !isSaid, nowNs - sinceNs >= Self.quietNs else { return false }
        isSaid = true
        return true
    }
}

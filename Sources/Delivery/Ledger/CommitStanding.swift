/// How the commits of one partition fare. A refusal pauses this partition only, and ever longer; one that is the
/// group's, for a second at most.
struct CommitStanding {
    static let firstPauseNs: Int64 = 100_000_000
    static let longestPauseNs: Int64 = 10_000_000_000
    /// Where the group or its coordinator refuses all commits: once it takes them again, no partition is to wait for
    /// longer than the lease.
    static let groupPauseNs: Int64 = 1_000_000_000
    /// While it is given up, when there is a limit to the time.
    static let leavingPauseNs: Int64 = 1_000_000_000
    /// The same trouble is told no more often.
    static let eventPauseNs: Int64 = 10_000_000_000
    /// One refusal is what a rebalance brings; the second in a row is trouble.
    static let refusalsToTell = 2

    /// In a row.
    private(set) var refusals = 0
    /// When the first of them came; `nil`: the last commit was taken. Monotonic.
    private(set) var sinceNs: Int64?
    /// No commit before this time.
    private(set) var untilNs: Int64 = 0
    /// The group or topic is gone or denied to us, for this partition.
    private(set) var isImpossible = false
    /// It is committed by itself, so that an error is known to be its own.
    private(set) var isAlone = false
    /// The error may have been another's: asked again at once.
    private(set) var isAskedAgain = false
    private var pauseNs: Int64 = 0
    private var nextEventNs = Int64.min
    private var isTold = false

    /// A commit of it was sent.
    mutating func sent() { isAskedAgain = false }

    /// The error may be another partition's.
    mutating func askAlone() {
        isAlone = true
        isAskedAgain = true
    }

    /// - Parameter longestPauseNs: how long the pause grows.
    /// - Returns: whether to tell.
    mutating func refuse(isImpossible: Bool, longestPauseNs: Int64, nowNs: Int64) -> Bool {
        refusals += 1
        if sinceNs == nil { sinceNs = nowNs }
        let isNews = isImpossible && !self.isImpossible
        if isImpossible { self.isImpossible = true }
        pauseNs = min(max(pauseNs * 2, Self.firstPauseNs), longestPauseNs)
        untilNs = nowNs + pauseNs
        guard isNews || refusals >= Self.refusalsToTell && nowNs >= nextEventNs else { return false }
        nextEventNs = nowNs + Self.eventPauseNs
        isTold = true
        return true
    }

    /// It was taken. Returns whether to tell that it is so again.
    mutating func acknowledge() -> Bool {
        defer { self = CommitStanding(keeping: nextEventNs) }
        return isTold
    }

    init() {}

    private init(keeping nextEventNs: Int64) { self.nextEventNs = nextEventNs }
}

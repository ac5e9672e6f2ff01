/// The latest commit of one consumer group. At most one commit of a group is in flight.
struct InFlightCommit {
    /// The entries of the commit in flight, or of the latest commit.
    var entries: [PartitionCommit] = []
    var isInFlight = false
    var sentNs: Int64 = 0
    /// The time before which only urgent commits are sent.
    var nextNs: Int64 = 0
    /// The time until which the next commit waits if fewer than `CommitLedger.busySettled` notifications were settled.
    var calmNs: Int64 = 0
    /// The number of notifications settled since the latest shared commit was sent.
    var settled = 0
    /// When the last acknowledged commit was sent. This worker was a member of its group at that time. `nil` if no
    /// commit was acknowledged.
    var provenNs: Int64?
    /// Whether the commit in flight, or the latest one, is a separate commit of one partition.
    var isAlone = false
}

/// The offset and metadata hash of a commit. A worker compares them with the group's commit at a later assignment, to
/// recognize whether another worker has committed since.
struct LastCommit: Equatable {
    /// The maximum number of unconfirmed commits that are stored for a partition.
    static let unconfirmedLimit = 64

    var offset: Int64
    private var hash: UInt64

    init(offset: Int64, metadata: UnsafeRawBufferPointer) {
        self.offset = offset
        hash = metadata.hash(seed: 0)
    }

    func matches(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> Bool {
        self.offset == offset && hash == metadata.hash(seed: 0)
    }
}

/// The backoff after refused commits of one partition. Each refusal doubles the pause of this partition only. If the
/// coordinator refuses the commits of the whole group, the pause is a second at most.
struct CommitBackoff {
    static let firstPauseNs: Int64 = 100_000_000
    static let longestPauseNs: Int64 = 10_000_000_000
    /// The maximum pause after a refusal by the group or its coordinator. With the default session timeout it is
    /// shorter than the lease, so a short outage does not stop sending.
    static let groupPauseNs: Int64 = 1_000_000_000
    /// The maximum pause while the partition is given up, because the drain has a time limit.
    static let leavingPauseNs: Int64 = 1_000_000_000
    /// The minimum time between two log events about refused commits of a partition, or about deferrals of an app.
    static let eventPauseNs: Int64 = 10_000_000_000
    /// The number of consecutive refused commits at which an event is logged. A rebalance usually causes one refusal.
    static let refusalsToReport = 2

    /// The number of consecutive refused commits.
    private(set) var refusals = 0
    /// The time before which no commit of the partition is sent.
    private(set) var untilNs: Int64 = 0
    /// Whether the topic does not exist, or the group may not read it.
    private(set) var isImpossible = false
    /// Whether the partition is committed separately, so that an error certainly concerns it.
    var isAlone = false
    /// Whether the partition is committed again immediately, because the last error may have concerned another
    /// partition.
    var isAskedAgain = false
    private var pauseNs: Int64 = 0
    private var nextEventNs = Int64.min
    private var isReported = false

    /// Counts a refused commit, and doubles the pause before the next one, up to `longestPauseNs`.
    ///
    /// - Returns: Whether to log the refusal.
    mutating func refuse(isImpossible: Bool, longestPauseNs: Int64, nowNs: Int64) -> Bool {
        refusals += 1
        let isNews = isImpossible && !self.isImpossible
        if isImpossible { self.isImpossible = true }
        pauseNs = min(max(pauseNs * 2, Self.firstPauseNs), longestPauseNs)
        untilNs = nowNs + pauseNs
        guard isNews || refusals >= Self.refusalsToReport && nowNs >= nextEventNs else { return false }
        nextEventNs = nowNs + Self.eventPauseNs
        isReported = true
        return true
    }

    /// Ends the backoff after a commit was acknowledged. Returns whether to log that commits are accepted again.
    mutating func acknowledge() -> Bool {
        let before = self
        self = CommitBackoff()
        nextEventNs = before.nextEventNs
        return before.isReported
    }
}

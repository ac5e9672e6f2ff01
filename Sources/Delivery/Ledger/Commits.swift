/// The commit of one consumer group, of which at most one is in flight.
struct InFlightCommit {
    /// The commit in flight, or the last one.
    private(set) var entries: [PartitionCommit] = []
    var isInFlight = false
    private(set) var sentNs: Int64 = 0
    /// Before this time only urgent commits are sent.
    var nextNs: Int64 = 0
    /// When the last acknowledged commit was sent: this worker was a member then. `nil` if none was acknowledged.
    var provenNs: Int64?
    /// Whether the commit in flight, or the last one, was of one partition by itself.
    private(set) var isAlone = false

    /// - Parameter intervalNs: `nil` for one partition by itself, which delays no other.
    mutating func begin(_ nowNs: Int64, intervalNs: Int64?) {
        entries.removeAll(keepingCapacity: true)
        isInFlight = true
        sentNs = nowNs
        isAlone = intervalNs == nil
        if let intervalNs { nextNs = nowNs + intervalNs }
    }

    mutating func append(_ entry: PartitionCommit) { entries.append(entry) }
}

/// Recognizes one commit of a partition when it is read back.
struct LastCommit: Equatable {
    /// The number of unanswered commits that are remembered.
    static let unconfirmedLimit = 64

    var offset: Int64
    private var hash: UInt64

    init(offset: Int64, metadata: UnsafeRawBufferPointer) {
        self.offset = offset
        hash = BytesHash.hash(metadata, seed: 0)
    }

    func matches(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> Bool {
        self.offset == offset && hash == BytesHash.hash(metadata, seed: 0)
    }
}

/// The backoff after refused commits of one partition. A refusal pauses this partition only, and ever longer; one that
/// concerns the whole group, for a second at most.
struct CommitBackoff {
    static let firstPauseNs: Int64 = 100_000_000
    static let longestPauseNs: Int64 = 10_000_000_000
    /// The longest pause if the group or its coordinator refuses all commits: once it takes them again, no partition
    /// waits for longer than the lease.
    static let groupPauseNs: Int64 = 1_000_000_000
    /// The longest pause while the partition is given up, for which there is a time limit.
    static let leavingPauseNs: Int64 = 1_000_000_000
    /// The shortest time between two events.
    static let eventPauseNs: Int64 = 10_000_000_000
    /// A rebalance brings one refusal; the second in a row is a problem.
    static let refusalsToReport = 2

    /// In a row.
    private(set) var refusals = 0
    /// No commit before this time.
    private(set) var untilNs: Int64 = 0
    /// The group or topic is gone, or denied to this worker.
    private(set) var isImpossible = false
    /// It is committed by itself, so that an error certainly concerns it.
    private(set) var isAlone = false
    /// The error may have concerned another partition: this one is committed again at once.
    private(set) var isAskedAgain = false
    private var pauseNs: Int64 = 0
    private var nextEventNs = Int64.min
    private var isReported = false

    /// A commit of it was sent.
    mutating func sent() { isAskedAgain = false }

    /// The error may be another partition's.
    mutating func askAlone() {
        isAlone = true
        isAskedAgain = true
    }

    /// - Parameter longestPauseNs: how long the pause grows.
    /// - Returns: whether to log it.
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

    /// A commit was taken. Returns whether to log that.
    mutating func acknowledge() -> Bool {
        defer { self = CommitBackoff(keeping: nextEventNs) }
        return isReported
    }

    init() {}

    private init(keeping nextEventNs: Int64) { self.nextEventNs = nextEventNs }
}

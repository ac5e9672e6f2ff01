/// What the reply to its commit means for a partition.
extension Partition {
    /// The broker took it.
    ///
    /// - Returns: whether what waits for the reach may go on.
    mutating func acknowledge(_ commit: Pending, journal: inout Journal) -> Bool {
        journal.counters.commitsAcknowledged &+= 1
        if let before = committed ?? ledger.committedAtAssignment {
            journal.counters.offsetsCommitted &+= commit.offset - before
        }
        committed = commit.offset
        lastCommit = commit.mark
        unconfirmed.removeAll(keepingCapacity: true)
        if commits.acknowledge() { journal.events.append(.commitsResumed(id)) }
        guard phase != .suspended else { return false }
        if commit.isLast {
            phase = .left
            return false
        }
        reach.acknowledge(commit.reach)
        return true
    }

    /// - Parameter longestPauseNs: of what a pause after refusals grows to.
    mutating func refuse(
        isImpossible: Bool, longestPauseNs: Int64 = CommitStanding.longestPauseNs, nowNs: Int64,
        journal: inout Journal
    ) {
        journal.counters.commitsRefused &+= 1
        isDirty = true
        let isLeaving = phase != .active
        let isNews = commits.refuse(
            isImpossible: isImpossible,
            longestPauseNs: isLeaving ? min(CommitStanding.leavingPauseNs, longestPauseNs) : longestPauseNs,
            nowNs: nowNs)
        if isNews {
            journal.events.append(
                .commitsRefused(
                    id, refusals: commits.refusals, sinceNs: commits.sinceNs ?? nowNs, isImpossible: isImpossible))
        }
        if isImpossible, phase == .draining || phase == .leaving {
            // Nobody can be told anything: there is no topic that he could read it of.
            phase = .left
        }
    }

    /// Its metadata was too large: the next is half as long.
    mutating func halveMetadata(of commit: Pending, nowNs: Int64, journal: inout Journal) {
        let half = min(metadataLimit, commit.characters) / 2
        // With less there would be no room for the reach and the owner.
        if half < CommitMapWriter.leastCharacters { refuse(isImpossible: false, nowNs: nowNs, journal: &journal) }
        metadataLimit = max(half, CommitMapWriter.leastCharacters)
    }
}

package import PushTransport

/// Decides the outcome of each notification on one binary connection, without I/O and without a clock.
/// `BinaryConnection` adds to a completion other than 200 the text of a reason that `ReasonCode` lacks, and whether the
/// connection has been replaced.
package struct BinarySession: Sendable {
    /// The meaning of an answer. The caller receives the completions of the processed and discarded notifications
    /// first, then this value.
    package enum Meaning: Sendable, Equatable {
        /// The answer determines the outcomes: `settled` open notifications were processed, and `discarded` were not.
        case decided(settled: Int, discarded: Int, byFence: Bool)
        /// The answer named a notification that had already been presumed accepted. At most `lostAtMost` were not
        /// delivered, including the named one unless the answer reports it as processed. `ageNs` is the time from the
        /// acknowledgement of its bytes to the answer, if known.
        case tooLate(lostAtMost: Int, ageNs: Int64?, discarded: Int)
        /// The answer names no known frame, so it is unknown what was processed. If the gateway reports that it
        /// processed nothing, `lostAtMost` is the number of notifications that had been presumed accepted, otherwise 0.
        case unmatched(lostAtMost: Int)
    }

    var window = BinaryWindow()
    /// The size of all frames so far, which is the position of the next frame.
    private var framedBytes: Int64 = 0
    /// Whether frames have identifiers. Without identifiers, an answer does not name its frame.
    package let hasIdentifiers: Bool
    /// The time of the last call of `settleSilent`. Bytes that arrived before this time are read before the next call.
    private var readUntilNs: Int64 = 0
    /// The time up to which the peer is known to have sent nothing.
    private var silentUntilNs: Int64 = 0
    private var hasFence = false
    /// Whether no more notifications are presumed accepted, so that only the answer to the fence determines outcomes.
    package private(set) var mustProve = false
    /// Whether a notification was presumed accepted on this connection, or an answer named an open notification or the
    /// fence.
    package private(set) var wasAnswered = false
    package private(set) var settledCount = 0
    package private(set) var isAnswered = false

    /// The time without an acknowledgement of a frame after which the peer counts as not reading.
    private static let stuckNs: Int64 = 1_000_000_000

    package init(hasIdentifiers: Bool = true) { self.hasIdentifiers = hasIdentifiers }

    /// The number of notifications without an outcome, not counting the fence.
    package var open: Int { window.count - (hasFence ? 1 : 0) }
    /// Returns when the first frame can be presumed accepted or, after a fence, when the wait for the fence's answer
    /// ends. Returns `nil` if the frame is not acknowledged yet.
    package func nextSilenceNs(windowNs: Int64) -> Int64? {
        if isAsked { return window.lastLeftNs.map { $0 + Self.fencePatienceNs } }
        return window.firstLeftNs.map { $0 + windowNs }
    }

    /// The time for which the connection waits for the answer to a fence.
    private static let fencePatienceNs: Int64 = 5_000_000_000

    /// Whether a fence can be sent: none was sent, no answer has arrived, and notifications are open or were presumed
    /// accepted. Presumed notifications need a fence too, because an error that the gateway has sent for one of them
    /// arrives before the fence's answer.
    package var canBeFenced: Bool { !hasFence && !isAnswered && (!window.isEmpty || settledCount > 0) }

    // MARK: Proof

    /// Stops presuming notifications accepted, because bytes in the peer's kernel do not prove that its program reads.
    /// Returns whether the connection must now write a fence.
    package mutating func demandProof() -> Bool {
        mustProve = true
        return !hasFence && !isAnswered
    }

    /// Whether an answer to a fence is expected. Until it arrives, no notification is presumed accepted, because the
    /// peer may not be reading.
    package var isAsked: Bool { mustProve || hasFence }

    /// Whether the fence was sent so long ago that a peer that reads would have answered.
    package var isProofOverdue: Bool {
        isAsked && window.lastLeftNs.map { silentUntilNs - $0 >= Self.fencePatienceNs } ?? false
    }

    /// The assumed limit of unread bytes in the peer's kernel and in network devices before the peer.
    private static let bufferBytes: Int64 = 8 << 20

    /// The number of notifications that were presumed accepted and that the peer may not have read: as many frames as
    /// fit into the buffers.
    package var presumedInBuffers: Int {
        let frameBytes = max(1, framedBytes / max(1, Int64(window.nextIdentifier) - 1))
        return min(settledCount, Int(Self.bufferBytes / frameBytes))
    }

    // MARK: Opening

    /// Opens an entry for a frame of `bytes` bytes that was added to the output. `id` is `nil` for the fence. A
    /// connection sends at most one fence.
    package mutating func open(_ id: NotificationID?, bytes: Int, openedMs: Int64, nowNs: Int64) {
        framedBytes += Int64(bytes)
        if id == nil { hasFence = true }
        window.open(
            BinaryWindow.Entry(
                id: id ?? NotificationID(number: .max, generation: 0), end: framedBytes, openedMs: openedMs,
                bytes: Int32(clamping: bytes), isFence: id == nil, openedNs: nowNs))
    }

    /// Returns whether a frame has been unacknowledged for at least `silenceNs`.
    package func isSilent(forNs silenceNs: Int64, nowNs: Int64) -> Bool {
        window.waitingSinceNs.map { nowNs - $0 >= silenceNs } ?? false
    }

    /// Returns whether the peer's program has probably stopped reading, because a frame has been unacknowledged for
    /// `stuckNs`. The connection must then get no further requests.
    package func isStuck(nowNs: Int64) -> Bool { isSilent(forNs: Self.stuckNs, nowNs: nowNs) }

    // MARK: Closing

    /// Completes notifications as presumed accepted if their frames were acknowledged at least one window ago. Returns
    /// the number of these notifications. Call this at most once a turn.
    ///
    /// The peer is known to have been silent only until the previous call of this method, because later bytes may not
    /// have been read yet. After a pause of the process, an error may still wait in the socket. If the peer does not
    /// read, no notification is presumed accepted, because its kernel took bytes that its program may never read.
    package mutating func settleSilent(windowNs: Int64, nowNs: Int64, _ complete: (Completion) -> Void) -> Int {
        silentUntilNs = readUntilNs
        readUntilNs = nowNs
        guard !isAsked, !isStuck(nowNs: nowNs) else { return 0 }
        var settled = 0
        while let entry = window.removeSilent(leftBy: silentUntilNs - windowNs) {
            settled += 1
            complete(Self.accepted(entry, isPresumed: true))
        }
        if settled > 0 {
            wasAnswered = true
            settledCount += settled
        }
        return settled
    }

    /// Processes the gateway's only answer. `resendsDiscarded` is whether the notifications that the gateway discarded
    /// are sent again.
    package mutating func answered(
        _ answer: GatewayAnswer, resendsDiscarded: Bool, nowNs: Int64, _ complete: (Completion) -> Void
    ) -> Meaning {
        isAnswered = true
        guard hasIdentifiers else { return .unmatched(lostAtMost: 0) }
        switch window.place(of: answer.identifier) {
        case .open(let before):
            var settled = 0
            for _ in 0..<before { settled += accept(complete) }
            let isFence = window.isFirstFence
            if isFence || answer.isOfTheLastProcessed {
                settled += accept(complete)
            } else {
                let named = removeFirst()
                settled += 1
                complete(
                    Completion(
                        id: named.id, kind: .answered, status: answer.resultStatus, reason: answer.reason,
                        sentAtMs: named.openedMs))
            }
            wasAnswered = true
            return .decided(settled: settled, discarded: discard(resendsDiscarded, complete), byFence: isFence)
        case .closed(let after):
            let isTooLate = after > 0 || !answer.isOfTheLastProcessed
            let leftNs = window.leftNs(ofClosedBefore: after)
            let discarded = discard(resendsDiscarded, complete)
            guard isTooLate else { return .decided(settled: 0, discarded: discarded, byFence: false) }
            let named = answer.isOfTheLastProcessed ? 0 : 1
            return .tooLate(lostAtMost: after + named, ageNs: leftNs.map { nowNs - $0 }, discarded: discarded)
        case .unknown where answer.isOfTheLastProcessed && !wasAnswered && answer.identifier == 0:
            // A shutdown with identifier 0: the gateway has processed nothing.
            return .decided(settled: 0, discarded: discard(resendsDiscarded, complete), byFence: false)
        case .unknown:
            let hasProcessedNone = answer.isOfTheLastProcessed && answer.identifier == 0
            return .unmatched(lostAtMost: hasProcessedNone ? window.closedCount : 0)
        }
    }

    /// Completes the open notifications after a connection closed without an answer. Returns how many are in doubt.
    ///
    /// - Parameter isSilent: whether the connection was given up because the peer stopped acknowledging bytes or did
    ///   not answer a fence.
    package mutating func ended(written: Int64, isSilent: Bool, _ complete: (Completion) -> Void) -> Int {
        let isAlone = open == 1
        var inDoubt = 0
        while !window.isEmpty {
            let entry = removeFirst()
            guard !entry.isFence else { continue }
            let mayHaveCome = entry.end - Int64(entry.bytes) < written
            if mayHaveCome { inDoubt += 1 }
            complete(
                Completion(
                    id: entry.id, kind: mayHaveCome ? .inDoubt : .notProcessed, sentAtMs: entry.openedMs,
                    connectionDied: mayHaveCome && isAlone, connectionWasSilent: mayHaveCome && isSilent))
        }
        return inDoubt
    }

    /// Closes all open entries, which follow the one that the answer named, because the gateway did not process them.
    /// Returns their number, not counting the fence.
    private mutating func discard(_ resends: Bool, _ complete: (Completion) -> Void) -> Int {
        let unprocessed: Completion.Unprocessed =
            !resends ? .discardedForGood : wasAnswered ? .discarded : .neverSent
        var discarded = 0
        while !window.isEmpty {
            let entry = removeFirst()
            guard !entry.isFence else { continue }
            discarded += 1
            complete(
                Completion(id: entry.id, kind: .notProcessed, unprocessed: unprocessed, sentAtMs: entry.openedMs))
        }
        return discarded
    }

    private mutating func accept(_ complete: (Completion) -> Void) -> Int {
        let entry = removeFirst()
        guard !entry.isFence else { return 0 }
        complete(Self.accepted(entry, isPresumed: false))
        return 1
    }

    private static func accepted(_ entry: BinaryWindow.Entry, isPresumed: Bool) -> Completion {
        Completion(
            id: entry.id, kind: .answered, status: 200, sentAtMs: entry.openedMs, isPresumed: isPresumed)
    }

    private mutating func removeFirst() -> BinaryWindow.Entry {
        let entry = window.removeFirst()
        if entry.isFence { hasFence = false }
        return entry
    }
}

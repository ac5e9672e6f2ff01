package import PushTransport

/// Decides what becomes of the notifications of one binary connection: a value machine, no I/O and no clock. Its
/// completions lack what only the connection knows: which credential it has, and texts.
package struct BinarySession: Sendable {
    /// What an answer came to. What it decided and discarded was said by then.
    package enum Meaning: Sendable, Equatable {
        /// It decided `settled` notifications, by the fence or another one.
        case decided(settled: Int, discarded: Int, byFence: Bool)
        /// It named one that silence had accepted: at most `lostAtMost` were not delivered, that one among them unless
        /// it was the last one processed. `ageNs`: how long after it left, as far as that is known.
        case tooLate(lostAtMost: Int, ageNs: Int64?, discarded: Int)
        /// It names no frame: what was processed is not known. The connection is to be given up. `lostAtMost`: so many
        /// had silence accepted, and it says that it processed none.
        case unmatched(lostAtMost: Int)
    }

    private(set) var window = BinaryWindow()
    /// Bytes of all frames so far: where the next one begins.
    private var framedBytes: Int64 = 0
    /// Without them, an answer does not say which frame it is about.
    package let hasIdentifiers: Bool
    /// What the peer had said until then was read.
    private var readUntilNs: Int64 = 0
    /// Nothing was said until then.
    private var silentUntilNs: Int64 = 0
    private var hasFence = false
    /// Silence accepts nothing any more: the answer to the fence decides, or nothing does.
    package private(set) var mustProve = false
    /// Something was settled on it, or the fence answered.
    package private(set) var wasAnswered = false
    package private(set) var settledCount = 0
    package private(set) var isAnswered = false

    /// What has waited for so long to be acknowledged waits for a peer that does not read.
    private static let stuckNs: Int64 = 1_000_000_000

    package init(hasIdentifiers: Bool = true) { self.hasIdentifiers = hasIdentifiers }

    /// Notifications of which nothing is known yet; a fence is none.
    package var open: Int { window.count - (hasFence ? 1 : 0) }
    /// When silence will have lasted long enough for the first frame, if any.
    package func nextSilenceNs(windowNs: Int64) -> Int64? {
        if isAsked { return window.lastLeftNs.map { $0 + Self.fencePatienceNs } }
        return window.firstLeftNs.map { $0 + windowNs }
    }

    /// How long the connection waits for a fence's answer.
    private static let fencePatienceNs: Int64 = 5_000_000_000

    /// Whether a fence would have something to decide, or to prove: an error that is still under way for what silence
    /// accepted comes before the fence's answer.
    package var canBeFenced: Bool { !hasFence && !isAnswered && (!window.isEmpty || settledCount > 0) }

    // MARK: Proof

    /// Demands an answer, since the peer may not read, and what its kernel took proves nothing. Returns whether the
    /// fence that brings one has to be written.
    package mutating func demandProof() -> Bool {
        mustProve = true
        return !hasFence && !isAnswered
    }

    /// Its fence is to be answered: until then silence, which may be that of one that reads nothing, accepts nothing.
    package var isAsked: Bool { mustProve || hasFence }

    /// The fence left so long ago that a peer that reads had answered it.
    package var isProofOverdue: Bool {
        isAsked && window.lastLeftNs.map { silentUntilNs - $0 >= Self.fencePatienceNs } ?? false
    }

    /// The most unread bytes that the peer's kernel and the network devices before it are assumed to buffer.
    private static let bufferBytes: Int64 = 8 << 20

    /// How many notifications accepted by silence may be unread: as many frames as buffers hold.
    package var presumedInBuffers: Int {
        let frameBytes = max(1, framedBytes / max(1, Int64(window.nextIdentifier) - 1))
        return min(settledCount, Int(Self.bufferBytes / frameBytes))
    }

    // MARK: Opening

    /// A frame of so many bytes is in the output. `id` is `nil` for the fence, of which there is one at most.
    package mutating func open(_ id: NotificationID?, bytes: Int, openedMs: Int64, nowNs: Int64) {
        framedBytes += Int64(bytes)
        if id == nil { hasFence = true }
        window.open(
            BinaryWindow.Entry(
                id: id ?? NotificationID(number: .max, generation: 0), end: framedBytes, openedMs: openedMs,
                bytes: Int32(clamping: bytes), isFence: id == nil, openedNs: nowNs))
    }

    /// The peer's kernel has the first `position` bytes.
    package mutating func acknowledged(upTo position: Int64, nowNs: Int64) {
        window.left(upTo: position, nowNs: nowNs)
    }

    /// Something has waited for so long to be acknowledged, whatever else was.
    package func isSilent(forNs silenceNs: Int64, nowNs: Int64) -> Bool {
        window.waitingSinceNs.map { nowNs - $0 >= silenceNs } ?? false
    }

    /// The peer's program does not read: no more is to be handed over.
    package func isStuck(nowNs: Int64) -> Bool { isSilent(forNs: Self.stuckNs, nowNs: nowNs) }

    // MARK: Closing

    /// Accepts by silence what left a window ago; returns how many notifications that is. Call it at most once a turn.
    ///
    /// Silence is known until the call before, since only what came until then has been read: after the process stood
    /// still, an error may wait to be read. The silence of a peer that reads no further accepts nothing: its kernel
    /// took what its program may never see.
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

    /// Takes the first answer; there is no other. `resendsDiscarded`: what it discarded is sent again.
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
            // It has processed nothing.
            return .decided(settled: 0, discarded: discard(resendsDiscarded, complete), byFence: false)
        case .unknown:
            let hasProcessedNone = answer.isOfTheLastProcessed && answer.identifier == 0
            return .unmatched(lostAtMost: hasProcessedNone ? window.closedCount : 0)
        }
    }

    /// Ends a connection that is gone without a word about what is open; returns how many notifications are in doubt.
    ///
    /// - Parameter isSilent: it was given up because the peer acknowledged nothing any more.
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

    /// What is behind the one that was named was not processed.
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

internal import Delivery
internal import Kafka

/// Where one partition is read: from where on in this assignment, whether a broker refuses the offset that is read
/// next, and since when what is read is known to be one log. Decides only; no clock, no I/O.
struct PartitionPosition {
    enum Step {
        case take
        /// It waits until it is known where reading goes on.
        case wait
        /// It was read before.
        case drop
    }

    /// Where reading began in this assignment: nothing comes from below in the same log.
    private var readFrom: Int64
    /// A broker refused the offset that is read next; nothing came yet that settles it.
    private var refused: RefusedPosition?
    /// What was read before comes again, although reading was sent on.
    private var mustSeek = false
    /// What is read is known to be one log since then (monotonic), and from this offset on.
    private var knownSinceNs: Int64
    private var knownFrom: Int64

    init(readFrom: Int64, knownFrom: Int64, nowNs: Int64) {
        self.readFrom = readFrom
        self.knownFrom = knownFrom
        knownSinceNs = nowNs
    }

    /// The offset that is to be read next.
    func next(_ id: PartitionID, _ machine: borrowing DeliveryMachine) -> Int64 {
        max(readFrom, (machine.status(of: id)?.highestArrived ?? -1) + 1)
    }

    /// Nothing of it is read until it is known where reading goes on.
    var isUnknown: Bool { refused?.isAsking == true }

    /// A broker refused the offset that is read next, and nothing settled it yet.
    var isRefused: Bool { refused != nil }

    /// When `mustAsk` has something to say (monotonic).
    var nextNs: Int64? { refused?.nextNs }

    /// Whether to ask now how the log stands.
    mutating func mustAsk(nowNs: Int64) -> Bool { refused?.mustAsk(nowNs: nowNs) == true }

    /// A broker refused the offset that is read next.
    mutating func refuse(nowNs: Int64) {
        if refused == nil {
            refused = RefusedPosition(nowNs: nowNs)
        } else {
            refused?.refusedAgain(nowNs: nowNs)
        }
    }

    /// Takes what the log's leader says; `nil`: nobody asked.
    mutating func told(first: Int64, end: Int64, next: Int64, nowNs: Int64) -> RefusedPosition.Finding? {
        refused?.told(first: first, end: end, position: next, nowNs: nowNs)
    }

    /// Whether what comes at an offset is to be looked at by `step` first.
    func isDoubtful(_ offset: Int64) -> Bool { refused != nil || offset < readFrom }

    /// What is to become of what comes at an offset while one is refused, or from below where reading began.
    ///
    /// - Parameter onSkipped: so many offsets were gone before they were read.
    mutating func step(
        at offset: Int64, _ id: PartitionID, _ machine: borrowing DeliveryMachine, _ now: DeliveryTime,
        onSkipped: (Int64) -> Void
    ) -> Step {
        let position = next(id, machine)
        let step = refused?.step(at: offset, position: position, nowNs: now.ns)
        switch step {
        case nil:
            // That it was refused is told elsewhere, and may come later.
            refused = RefusedPosition(nowNs: now.ns)
            return .wait
        case .wait: return .wait
        case .take: return .take
        case .drop: return .drop
        case .dropAndGoBack:
            mustSeek = true
            return .drop
        case .arrived:
            refused = nil
            return .take
        case .ahead(let first):
            refused = nil
            // What came before, and was read again, was not lost.
            let next = max(knownFrom, (machine.status(of: id)?.highestReceived ?? -1) + 1)
            if first > next { onSkipped(first - next) }
            return .take
        }
    }

    /// Whether reading is to be sent on once more; only once.
    mutating func takeMustSeek() -> Bool {
        defer { mustSeek = false }
        return mustSeek
    }

    /// What came at this offset was received.
    mutating func received(_ offset: Int64) {
        guard refused != nil, offset < readFrom else { return }
        // Of another log, of which nothing was read before in this assignment.
        readFrom = offset
        refused = nil
    }

    // MARK: The log

    /// What comes from below is of another log, as its leader said.
    var isAnotherLog: Bool { refused?.isAnotherLog == true }

    /// Whether reading began since the watch saw the log unchanged, and not behind what changed: all that is new is
    /// read.
    func covers(_ change: LogMarks.Change) -> Bool { knownSinceNs > change.unchangedNs && knownFrom <= change.from }

    /// The log is another one, read from this offset on.
    mutating func readAnew(from offset: Int64) {
        refused = nil
        readFrom = offset
    }

    /// The log is another one, whose first record came at this offset.
    mutating func otherLogCame(from offset: Int64, nowNs: Int64) {
        knownSinceNs = nowNs
        knownFrom = offset
        readFrom = offset
    }
}

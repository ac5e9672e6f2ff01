internal import Configuration
internal import Delivery
internal import EventLoop
internal import HTTPServer
internal import Kafka
internal import Observability
internal import Synchronization

/// How a worker ends: its groups are drained and left, what was produced is acknowledged, connections are closed. Every
/// stage has a deadline: whatever hangs, the process ends about 20 s after `drain.shutdown`. Core thread, but for
/// `isRequested`.
final class Shutdown {
    private enum Stage {
        case draining(deadlineNs: Int64)
        case flushing(deadlineNs: Int64)
        case closing(deadlineNs: Int64)
    }

    /// Set by `PushWorker.stop`, on any thread.
    let isRequested = Atomic(false)
    private var stage: Stage?
    /// Why the worker cannot go on.
    private(set) var failure: String?
    /// False once `run` has ended and something it started has not: the process is to exit without destructors.
    fileprivate(set) var hasEndedWhole = true

    /// How long leaving the groups may take after the drain limit, the last commit included (`GroupReader`).
    private static let leaveNs: Int64 = 6_000_000_000
    private static let flushNs: Int64 = 3_000_000_000
    /// A fence of the binary protocol is waited for 5 s; connections of HTTP/2 have nothing on them by then.
    private static let closeNs: Int64 = 6_000_000_000

    var isUnderWay: Bool { stage != nil }

    /// When leaving the groups is given up, while they are left (monotonic).
    var leavingUntilNs: Int64? { if case .draining(let deadlineNs)? = stage { deadlineNs } else { nil } }

    /// Begins to drain and leave the groups.
    func begin(
        _ parts: WorkerParts, _ feedback: FeedbackThread?, _ machine: inout DeliveryMachine, limitNs: Int64,
        because failure: String?, _ now: DeliveryTime
    ) {
        if let failure { self.failure = failure }
        guard stage == nil else { return }
        stage = .draining(deadlineNs: now.ns + limitNs + Self.leaveNs)
        for reader in parts.readers { reader.leave(&machine, limitNs: limitNs, now: now) }
        feedback?.finish()
    }

    /// Goes on to the next stage where this one is over; true once everything is.
    func move(
        _ parts: WorkerParts, _ feedback: FeedbackThread?, _ machine: borrowing DeliveryMachine, _ logger: Logger,
        _ now: DeliveryTime
    ) -> Bool {
        switch stage {
        case nil: return false
        case .draining(let deadlineNs):
            let staying = parts.readers.filter { !$0.hasLeft }
            // What was sent for a group that could not be left has as long as what is on connections.
            let isOpen = failure != nil && machine.gauges.inFlight.contains { $0 > 0 }
            let isReading = feedback?.hasFinished == false
            let isWaiting = !staying.isEmpty || (isOpen || isReading) && now.ns < deadlineNs - Self.leaveNs
            guard !isWaiting || now.ns >= deadlineNs else { return false }
            if !staying.isEmpty {
                logger.warning(
                    .kafka, "groups cannot be left: they notice after the session timeout",
                    ["groups": .text(staying.map(\.name).joined(separator: ","))])
            }
            stage = .flushing(deadlineNs: now.ns + Self.flushNs)
        case .flushing(let deadlineNs):
            guard parts.publisher.isIdle || now.ns >= deadlineNs else { return false }
            parts.transports.close()
            stage = .closing(deadlineNs: now.ns + Self.closeNs)
        case .closing(let deadlineNs):
            return parts.transports.isClosed || now.ns >= deadlineNs
        }
        return false
    }
}

// MARK: After the loop

/// What a worker is made of, on its way out. The thread that made it hands it to the one that calls `end`, and reads
/// nothing but `step` from then on: that is what `@unchecked Sendable` stands for.
final class WorkerRemains: @unchecked Sendable {
    private var pages: PageServer?
    private var feedback: FeedbackThread?
    private var parts: WorkerParts?
    /// Last: librdkafka rings it, and the feedback's.
    private var doorbell: Doorbell?
    /// How far it came.
    private let step = Atomic(0)

    private static let steps = ["the admin pages", "the feedback thread", "the net thread", "the Kafka clients"]
    /// For threads and clients to end.
    private static let limitNs: Int64 = 4_000_000_000

    init(_ pages: PageServer?, _ feedback: FeedbackThread?, _ parts: WorkerParts?, _ doorbell: Doorbell?) {
        self.pages = pages
        self.feedback = feedback
        self.parts = parts
        self.doorbell = doorbell
    }

    private func end() {
        pages?.stop()
        step.store(1, ordering: .relaxed)
        feedback?.stop()
        step.store(2, ordering: .relaxed)
        parts?.transports.stop()
        step.store(3, ordering: .relaxed)
        parts = nil
        _ = ClientReaper.wait(milliseconds: Self.limitNs / 1_000_000)
        feedback = nil
        doorbell = nil
    }

    /// Ends everything; what does not end in time is left behind, and a line says so. Everything is committed by then
    /// that could be.
    ///
    /// - Parameter isBusy: a thread reads files or asks brokers: it uses OpenSSL, which destructors take from under it.
    func end(_ shutdown: Shutdown, isBusy: Bool, _ logger: Logger) {
        let hadStarted = parts != nil
        let isOver = Bounded.run(atMostNs: Self.limitNs) { self.end() }
        let hasEnded = isOver && ClientReaper.unfinished == 0
        shutdown.hasEndedWhole = hasEnded && !isBusy
        if !hasEnded {
            logger.warning(
                .worker, "something does not end: the process exits without it, nothing is lost by that",
                [
                    "what": .text(Self.steps[step.load(ordering: .relaxed)]),
                    "kafka_clients": .count(ClientReaper.unfinished),
                ])
        }
        logger.writeLeftOut(all: true)
        if hadStarted { logger.info(.worker, "stopped") }
    }
}

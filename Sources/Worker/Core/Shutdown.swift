internal import Configuration
internal import Delivery
internal import Observability
internal import Synchronization

/// Stops a worker: its groups are drained and left, produced records are acknowledged, connections are closed. Every
/// stage has a deadline: whatever hangs, the process ends within 18 s after `drain.shutdown`. With its default of 12 s
/// that is before Kubernetes kills it (30 s). Core thread, except for `isRequested`.
final class Shutdown {
    private enum Stage {
        case draining(deadlineNs: Int64)
        case flushing(deadlineNs: Int64)
        case closing(deadlineNs: Int64)
    }

    let isRequested = Atomic(false)
    private var stage: Stage?
    private(set) var failure: String?

    /// How long leaving the groups may take after the drain limit, the last commit included (`GroupReader`).
    private static let leaveNs: Int64 = 6_000_000_000
    private static let flushNs: Int64 = 2_000_000_000
    /// A fence of the binary protocol is waited for 5 s; connections of HTTP/2 have nothing on them by then.
    private static let closeNs: Int64 = 5_300_000_000

    var isUnderWay: Bool { stage != nil }

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

internal import Delivery
internal import Observability
internal import Synchronization

/// Stops a worker in stages: the worker drains and leaves the consumer groups, waits until Kafka has acknowledged
/// produced records, and closes connections. Every stage has a time limit. With the default of 12 s for
/// `drain.shutdown`, the process ends within Kubernetes' default grace period (30 s). Core thread, except for
/// `isRequested`.
final class Shutdown {
    private enum Stage {
        case draining(deadlineNs: Int64)
        case flushing(deadlineNs: Int64)
        case closing(deadlineNs: Int64)
    }

    let isRequested = Atomic(false)
    private var stage: Stage?
    private(set) var failure: String?

    /// The time limit for leaving the groups after the drain limit, including the last commit (`GroupReader`).
    static let leaveNs: Int64 = 6_000_000_000
    static let flushNs: Int64 = 2_000_000_000
    /// The time limit for closing connections. The binary protocol waits up to 5 s for the answer to a fence. HTTP/2
    /// connections usually have no open requests at this stage.
    static let closeNs: Int64 = 5_300_000_000
    /// The time limit for the end of the Kafka clients, after the last stage.
    static let clientsNs: Int64 = 4_000_000_000

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

    /// Begins the next stage if the current one is complete or its deadline has passed. Returns true once the last
    /// stage has ended.
    func move(
        _ parts: WorkerParts, _ feedback: FeedbackThread?, _ machine: borrowing DeliveryMachine, _ logger: Logger,
        _ now: DeliveryTime
    ) -> Bool {
        switch stage {
        case nil: return false
        case .draining(let deadlineNs):
            let staying = parts.readers.filter { !$0.hasLeft }
            // After a fatal error, the worker waits for notifications in flight until the drain limit, even if its
            // members have already left their groups.
            let isOpen = failure != nil && machine.gauges.inFlight.contains { $0 > 0 }
            let isReading = feedback?.hasFinished == false
            let isWaiting = !staying.isEmpty || (isOpen || isReading) && now.ns < deadlineNs - Self.leaveNs
            guard !isWaiting || now.ns >= deadlineNs else { return false }
            if !staying.isEmpty {
                logger.warning(
                    .kafka, "groups not left in time; Kafka removes this member after the session timeout",
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

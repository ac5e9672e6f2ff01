internal import Configuration
internal import Delivery
internal import EventLoop
internal import HTTPServer
internal import Kafka
internal import Observability
internal import Synchronization

extension PushWorker {
    func beginStopping() {
        guard stopping == nil, publisher != nil else { return }
        let limitNs = configuration.drain.shutdown.nanoseconds
        stopping = .draining(deadlineNs: now.ns + limitNs + Self.leaveNs)
        for reader in readers { reader.leave(&machine, limitNs: limitNs, now: now) }
        feedback?.finish()
    }

    func moveStopping(_ now: DeliveryTime) {
        switch stopping {
        case nil: return
        case .draining(let deadlineNs):
            let staying = readers.filter { !$0.hasLeft }
            // What is open of a log that is gone is nobody's once we are: it has as long as what is on connections. So
            // has what was sent for a group that could not be left.
            let isOpen = machine.hasDetached || ending != nil && machine.gauges.inFlight.contains { $0 > 0 }
            let isTelling = feedback?.isIdle == false
            let isWaiting =
                !staying.isEmpty || (isOpen || isTelling) && now.ns < deadlineNs - Self.leaveNs
            guard !isWaiting || now.ns >= deadlineNs else { break }
            if !staying.isEmpty {
                logger.warning(
                    .kafka, "groups cannot be left: they notice after the session timeout",
                    ["groups": .text(staying.map(\.name).joined(separator: ","))])
            }
            stopping = .flushing(deadlineNs: now.ns + Self.flushNs)
        case .flushing(let deadlineNs):
            guard publisher?.isIdle == true || now.ns >= deadlineNs else { break }
            transports?.close()
            stopping = .closing(deadlineNs: now.ns + Self.closeNs)
        case .closing(let deadlineNs):
            guard transports?.isClosed != false || now.ns >= deadlineNs else { break }
            loop.stop()
        }
        // What remains is waited for in short steps: leaving a group has no event of its own.
        loop.schedule(afterNs: 5_000_000) {}
    }

    /// It cannot go on: what is on connections settles, what can be committed is, and the process ends with an error.
    func stop(because reason: String) {
        logger.error(.worker, "cannot go on; what is in flight has time to settle", ["reason": "\(reason)"])
        ending = .failed(reason)
        beginStopping()
    }

    // MARK: After the loop

    /// What a worker is made of, on its way out. The thread that made it hands it to the one that calls `end`, and
    /// reads nothing but `step` from then on: that is what `@unchecked Sendable` stands for.
    private final class Remains: @unchecked Sendable {
        var pages: PageServer?
        var feedback: FeedbackThread?
        var transports: AppTransports?
        var groups: ConsumerGroups?
        var publisher: RecordPublisher?
        /// Last: librdkafka rings it, and the feedback's.
        var doorbell: Doorbell?
        /// How far it came.
        let step = Atomic(0)
        static let steps = [
            "the admin pages", "the feedback thread", "the net thread", "the Kafka clients",
        ]

        init(pages: PageServer?, of worker: PushWorker) {
            self.pages = pages
            feedback = worker.feedback
            transports = worker.transports
            groups = worker.groups
            publisher = worker.publisher
            doorbell = worker.doorbell
        }

        func end() {
            pages?.stop()
            step.store(1, ordering: .relaxed)
            feedback?.stop()
            step.store(2, ordering: .relaxed)
            transports?.stop()
            transports = nil
            step.store(3, ordering: .relaxed)
            groups = nil
            publisher = nil
            _ = ClientReaper.wait(milliseconds: PushWorker.dismantleNs / 1_000_000)
            feedback = nil
            doorbell = nil
        }
    }

    /// Ends what `run` started; what does not end in time is left behind, and a line says so. Everything is committed
    /// by then that could be.
    func dismantle(_ pages: PageServer?) {
        let remains = Remains(pages: pages, of: self)
        let hadStarted = publisher != nil
        feedback = nil
        transports = nil
        groups = nil
        publisher = nil
        doorbell = nil
        let isOver = Bounded.run(atMostNs: Self.dismantleNs) { remains.end() }
        let hasEnded = isOver && ClientReaper.unfinished == 0
        // A thread that reads files, or asks brokers, uses OpenSSL, which destructors take from under it.
        hasEndedWhole = hasEnded && !isReadingFiles && removedRetryTopics?.isAsking != true
        if !hasEnded {
            logger.warning(
                .worker, "something does not end: the process exits without it, nothing is lost by that",
                [
                    "what": .text(Remains.steps[remains.step.load(ordering: .relaxed)]),
                    "kafka_clients": .count(ClientReaper.unfinished),
                ])
        }
        logger.writeLeftOut(all: true)
        if hadStarted { logger.info(.worker, "stopped") }
    }
}

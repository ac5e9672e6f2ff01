internal import Configuration
internal import Delivery
internal import EventLoop
internal import Observability

extension PushWorker {
    /// Has the feedback read of the apps that there are now, as they say now. Starts the thread when the first one asks
    /// for it; where there is none to be had, a second later.
    func readFeedback() {
        guard stopping == nil, publisher != nil else { return }
        let wanted = apps.enumerated().compactMap { index, app in
            appRows[index].isRemoved ? nil : FeedbackApp(app, index: index)
        }
        for index in appRows.indices where !wanted.contains(where: { $0.index == index }) {
            appRows[index].feedback?.forgetFaults()
        }
        if feedback == nil, wanted.contains(where: { $0.intervalNs > 0 }) { startFeedback() }
        feedback?.set(wanted)
    }

    private func startFeedback() {
        let standings = Mailbox<FeedbackThread.Told>(loop: loop, capacity: 4_096) { [unowned self] batch in
            for told in batch { take(told) }
        }
        do throws(SystemError) {
            feedback = try FeedbackThread(
                cluster, topic: configuration.unregistered.topic, logger: logger, standings: standings)
        } catch {
            logger.error(.apns, "feedback cannot be read; trying again", ["error": "\(error)"])
        }
    }

    private func take(_ told: FeedbackThread.Told) {
        appRows[told.app].feedback = told.standing
        // Its read was under way when it went.
        let isRead = !appRows[told.app].isRemoved && apps[told.app].settings.binary?.feedback != nil
        if !isRead { appRows[told.app].feedback?.forgetFaults() }
    }

    /// How long Kafka may take no dead token before that is named.
    private static let waitingNs: Int64 = 10_000_000_000

    func feedbackFaults(_ now: DeliveryTime) -> [Fault] {
        appRows.compactMap { row in
            guard let feedback = row.feedback else { return nil }
            let subject = "app \(row.name)"
            if feedback.waiting > 0, now.ns - feedback.waitingSinceNs >= Self.waitingNs {
                return Fault(
                    subject, .feedback, "\(feedback.waiting) dead tokens of its feedback wait for Kafka to take them",
                    "look at the brokers and at \(configuration.unregistered.topic); do not stop the worker before they are "
                        + "written: nobody else has them")
            }
            return feedback.failure.map { reason in
                Fault(
                    subject, .feedback, "feedback cannot be read: \(reason)",
                    "look at binary.feedback, at the network between, and at the client certificate; it is tried again every "
                        + "minute, or as often as its interval says")
            }
        }
    }
}

extension FeedbackStanding {
    /// Nobody reads any more: only what was counted stays.
    fileprivate mutating func forgetFaults() {
        failure = nil
        waiting = 0
    }
}

package import Configuration
internal import EventLoop
package import Kafka
package import Observability

/// Reads the feedback of given apps once, without a worker.
package enum FeedbackRun {
    package struct Ending: Sendable, Equatable {
        package var unread: [String]
        /// The number of tokens that were read but that Kafka did not acknowledge.
        package var lost: Int
        /// The text of the Kafka client's last error, or empty if Kafka has acknowledged a record since.
        package var trouble: String
    }

    package enum StopRequest: Sendable {
        case none
        /// Begin no more reads, and wait until Kafka has acknowledged the received tokens.
        case finish
        case giveUp
    }

    /// Reads the feedback of `apps`. Returns once Kafka has acknowledged all received tokens, after `timeoutNs`, or
    /// when `stopRequest` returns `giveUp`.
    ///
    /// The method runs an event loop on the calling thread. Do not call it on a thread that already runs a loop.
    ///
    /// - Parameter onDelay: A function that is called with the error each time a read is delayed because Kafka cannot
    ///   accept tokens.
    package static func run(
        _ apps: [AppSettings], topic: String, _ cluster: ClusterSettings, logger: Logger, timeoutNs: Int64,
        stopRequest: () -> StopRequest, onOutcome: @escaping (FeedbackOutcome) -> Void, onDelay: (String) -> Void
    ) throws(StartFailure) -> Ending {
        var left = try LoadedApp.load(apps).enumerated().compactMap { FeedbackApp($1, index: $0) }
        let loop = try StartFailure.catching { try Loop() }
        let reader = FeedbackReader(cluster, topic: topic, loop: loop, logger: logger)
        reader.onEnd = { onOutcome($1) }
        let deadlineNs = LoopTime.read().monotonicNs + timeoutNs
        var nextTryNs: Int64 = 0
        while true {
            let nowNs = LoopTime.read().monotonicNs
            let stop = stopRequest()
            let isBeginning = stop == .none && !left.isEmpty
            guard isBeginning || reader.count > 0, stop != .giveUp, nowNs < deadlineNs else { break }
            while isBeginning, nowNs >= nextTryNs, let app = left.first {
                do throws(KafkaError) {
                    try reader.begin(app)
                    left.removeFirst()
                } catch {
                    onDelay(error.text)
                    nextTryNs = LoopTime.read().monotonicNs + 500_000_000
                }
            }
            loop.runOnce(timeoutNs: min(max(deadlineNs - nowNs, 0), 100_000_000))
        }
        let trouble = reader.trouble
        let lost = reader.close(because: "the read was stopped before the service had sent everything")
        // The loop closes the connections in its next turn.
        loop.runOnce()
        _ = ClientReaper.wait(milliseconds: 3_000)
        return Ending(unread: left.map(\.name), lost: lost, trouble: trouble)
    }
}

package import Configuration
internal import EventLoop
package import Kafka
internal import Network
package import Observability

/// Reads the feedback of some apps once, without a worker.
package enum FeedbackRun {
    package struct Ending: Sendable, Equatable {
        package var unread: [String]
        /// Tokens that were read and that Kafka did not acknowledge.
        package var lost: Int
        /// The client's last error; empty if there was none.
        package var trouble: String
    }

    package enum StopRequest: Sendable {
        case none
        /// Begin no read, and write what was read.
        case finish
        case giveUp
    }

    /// Returns once all is read and acknowledged, or when the time is over or `stopRequest` says so.
    ///
    /// Runs a loop on the calling thread, so it is not for a thread that has one.
    ///
    /// - Parameter onDelay: called with the reason each time that Kafka could not take tokens, so that no read began.
    package static func run(
        _ apps: [AppSettings], topic: String, _ cluster: ClusterSettings, logger: Logger, timeoutNs: Int64,
        stopRequest: () -> StopRequest, onOutcome: @escaping (FeedbackOutcome) -> Void, onDelay: (String) -> Void
    ) throws(StartFailure) -> Ending {
        var left = try LoadedApp.load(apps).enumerated().compactMap { FeedbackApp($1, index: $0) }
        let loop: Loop
        let reader: FeedbackReader
        do {
            loop = try Loop()
            reader = try FeedbackReader(cluster, topic: topic, loop: loop, logger: logger)
        } catch {
            throw StartFailure(["\(error)"])
        }
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
        let lost = reader.close(because: "it was cut off before the service had said all")
        // Connections close in a turn.
        loop.runOnce()
        _ = ClientReaper.wait(milliseconds: 3_000)
        return Ending(unread: left.map(\.name), lost: lost, trouble: trouble)
    }
}

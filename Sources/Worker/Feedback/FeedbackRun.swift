package import Configuration
internal import EventLoop
package import Kafka
internal import Network
package import Observability

/// Reads the feedback of some apps once, without a worker.
///
/// Runs a loop on the calling thread, so it is not for a thread that has one.
package final class FeedbackRun {
    /// What came of an app.
    package struct Answer: Sendable {
        package var app: String
        /// Dead tokens that Kafka acknowledged.
        package var tokens: Int
        /// Items whose token had a length that no token has.
        package var skipped: Int
        /// Why there may be more; `nil`: the service said all it had, and Kafka has it.
        package var failure: String?
    }

    /// How it ended.
    package struct Ending: Sendable, Equatable {
        /// Apps that were not read.
        package var unread: [String]
        /// Tokens that were read and that Kafka did not acknowledge: nobody has them.
        package var lost: Int
        /// What kept Kafka from taking them, in the client's words; empty: it did not say.
        package var trouble: String
    }

    /// Whether, and how, to end before all is read.
    package enum StopRequest: Sendable {
        case none
        /// Begin nothing; what was read is written.
        case finish
        case giveUp
    }

    private let loop: Loop
    private let reads: FeedbackReads
    /// Not begun yet.
    private var left: [FeedbackApp]
    private var nextTryNs: Int64 = 0

    /// - Throws: `StartFailure` when a credential cannot be used.
    package init(
        _ apps: [AppSettings], topic: String, _ cluster: ClusterSettings, logger: Logger,
        onAnswer: @escaping (Answer) -> Void
    ) throws(StartFailure) {
        let loaded = try LoadedApp.load(apps)
        left = loaded.enumerated().compactMap { FeedbackApp($1, index: $0) }
        do {
            loop = try Loop()
            reads = try FeedbackReads(cluster, topic: topic, loop: loop, logger: logger)
        } catch {
            throw StartFailure(["\(error)"])
        }
        reads.onEnd = { app, outcome in
            onAnswer(
                Answer(app: app.name, tokens: outcome.tokens, skipped: outcome.skipped, failure: outcome.failure))
        }
    }

    /// Returns once all is read and acknowledged, or when the time is over or `stopRequest` says so; call it once.
    ///
    /// `onDelay` is called with the reason each time that Kafka could not take tokens, and so none was asked for.
    package func run(
        timeoutNs: Int64, stopRequest: () -> StopRequest, onDelay: (String) -> Void
    ) -> Ending {
        let deadlineNs = LoopTime.read().monotonicNs + timeoutNs
        var isBeginning = true
        while isBeginning && !left.isEmpty || reads.count > 0 {
            let nowNs = LoopTime.read().monotonicNs
            let stopRequest = stopRequest()
            if stopRequest == .giveUp || nowNs >= deadlineNs { break }
            if stopRequest == .finish { isBeginning = false }
            if isBeginning { begin(nowNs, onDelay) }
            loop.runOnce(timeoutNs: min(max(deadlineNs - nowNs, 0), 100_000_000))
        }
        let trouble = reads.trouble
        let lost = reads.close(because: "it was cut off before the service had said all")
        // What closes, closes in a turn.
        loop.runOnce()
        _ = ClientReaper.wait(milliseconds: 3_000)
        return Ending(unread: left.map(\.name), lost: lost, trouble: trouble)
    }

    private func begin(_ nowNs: Int64, _ onDelay: (String) -> Void) {
        guard nowNs >= nextTryNs else { return }
        while let app = left.first {
            do throws(KafkaError) {
                try reads.begin(app)
                left.removeFirst()
            } catch {
                nextTryNs = LoopTime.read().monotonicNs + 500_000_000
                return onDelay(error.text)
            }
        }
    }
}

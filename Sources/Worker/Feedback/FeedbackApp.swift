internal import Configuration
internal import Network
internal import PushRecords
internal import TLS

struct FeedbackApp: Sendable {
    let index: Int
    let record: RecordApp
    /// The `apns_topic` in records of dead tokens: the app's first bundle id, because the feedback service sends no
    /// topic.
    let topic: String
    let target: DialTarget
    let context: ClientContext
    /// The time from the start of one read to the start of the next, or 0 if only the command `feedback` reads tokens.
    let intervalNs: Int64

    var name: String { record.name }

    init?(_ app: LoadedApp, index: Int) {
        guard app.faults.isEmpty, let feedback = app.settings.binary?.feedback else { return nil }
        self.index = index
        record = RecordApp(name: app.settings.name, environment: app.settings.environment)
        topic = app.settings.bundleIDs.first ?? ""
        target = DialTarget(host: feedback.host, port: UInt16(clamping: feedback.port), proxy: app.proxy)
        context = app.context
        intervalNs = feedback.interval.nanoseconds
    }
}

package struct FeedbackOutcome: Sendable, Equatable {
    package var app: String
    package var tokens: Int
    /// The number of received items whose token had an invalid length.
    package var skipped = 0
    /// The reason why the read may have missed tokens of the service, or `nil` if the read was complete.
    package var failure: String?

    var kind: FeedbackStanding.Outcome {
        failure == nil ? .complete : tokens > 0 || skipped > 0 ? .incomplete : .failed
    }
}

struct FeedbackStanding: Sendable {
    enum Outcome: String, CaseIterable, Sendable {
        /// The service sent all its tokens, and Kafka acknowledged their records.
        case complete
        /// Kafka acknowledged all received tokens, but the service may have had more tokens.
        case incomplete
        case failed
    }

    var tokens = 0
    /// The number of finished reads for each outcome.
    var reads: [Outcome: Int] = [:]
    /// The reason why the last read was incomplete, or why no read can begin.
    var failure: String?
    /// The number of dead tokens that were read and that Kafka has not acknowledged.
    var waiting = 0
    /// The time since which Kafka has acknowledged none of the `waiting` tokens (monotonic).
    var waitingSinceNs: Int64 = 0
}

internal import Configuration
internal import Network
internal import PushRecords
internal import TLS

struct FeedbackApp: Sendable {
    let index: Int
    let record: RecordApp
    /// The topic of its dead tokens. The feedback service names none, so it is the app's first bundle id.
    let topic: String
    let target: DialTarget
    let context: ClientContext
    /// From the beginning of a read to the beginning of the next; 0 if only the command reads.
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
    /// Items whose token had an impossible length.
    package var skipped = 0
    /// The reason why there may be more, or `nil` if Kafka has everything that the service had.
    package var failure: String?

    var kind: FeedbackStanding.Outcome {
        failure == nil ? .complete : tokens > 0 || skipped > 0 ? .incomplete : .failed
    }
}

struct FeedbackStanding: Sendable {
    enum Outcome: String, CaseIterable, Sendable {
        /// The service sent all it had, and Kafka has it.
        case complete
        /// Kafka has what came; there may have been more.
        case incomplete
        case failed
    }

    var tokens = 0
    /// Finished reads, by the order of their outcomes.
    var reads = Outcome.allCases.map { _ in 0 }
    /// The reason why the last read was incomplete, or why none can begin.
    var failure: String?
    /// Dead tokens that were read and that Kafka has not acknowledged.
    var waiting = 0
    /// The time since when Kafka has acknowledged none of them (monotonic).
    var waitingSinceNs: Int64 = 0

    mutating func count(_ outcome: Outcome) {
        if let place = Outcome.allCases.firstIndex(of: outcome) { reads[place] += 1 }
    }
}

internal import Configuration
internal import Network
internal import PushRecords
internal import TLS

/// An app whose feedback is read: where, and as whom its dead tokens are written.
struct FeedbackApp: Sendable {
    /// The app's place among all there ever were (`AppIndex`).
    let index: Int
    let record: RecordApp
    /// Of its dead tokens: the feedback service names none, so it is the app's first bundle id.
    let topic: String
    let target: DialTarget
    let context: ClientContext
    /// From the beginning of a read to the beginning of the next; 0: nobody reads but the command.
    let intervalNs: Int64

    var name: String { record.name }

    /// `nil`: its feedback is not read.
    init?(_ app: LoadedApp, index: Int) {
        guard let feedback = app.settings.binary?.feedback else { return nil }
        self.index = index
        record = RecordApp(name: app.settings.name, environment: app.settings.environment)
        topic = app.settings.bundleIDs.first ?? ""
        target = DialTarget(host: feedback.host, port: UInt16(clamping: feedback.port), proxy: app.proxy)
        context = app.context
        intervalNs = feedback.interval.nanoseconds
    }
}

/// What came of an app's feedback since the start.
struct FeedbackStanding: Sendable, Equatable {
    /// How a read ended, as metrics count it.
    enum Outcome: String, CaseIterable, Sendable {
        /// The server said all it had, and Kafka has it.
        case complete
        /// Kafka has what came; there may have been more.
        case incomplete
        /// Nothing came.
        case failed
    }

    /// Dead tokens that Kafka acknowledged.
    var tokens = 0
    /// Reads that are over, by their outcomes' places.
    var reads = Outcome.allCases.map { _ in 0 }
    /// Why the last read was not complete, or none can be begun; `nil`: it was, or there was none.
    var failure: String?
    /// Dead tokens that were read and that Kafka has not acknowledged.
    var waiting = 0
    /// Since when it has acknowledged none of them (monotonic).
    var waitingSinceNs: Int64 = 0

    mutating func count(_ outcome: Outcome) {
        if let place = Outcome.allCases.firstIndex(of: outcome) { reads[place] += 1 }
    }

    /// With what came of it before it was taken out and came back; how it stands is as here.
    func sum(with other: Self?) -> Self {
        guard let other else { return self }
        var sum = self
        sum.tokens += other.tokens
        for place in reads.indices { sum.reads[place] += other.reads[place] }
        return sum
    }
}

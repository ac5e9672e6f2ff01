internal import Bytes
package import PushRecords

package enum ReplaySource: String, CaseIterable, Sendable {
    case results
    case deadLetters = "dead-letters"
}

/// The results or dead letters to replay. Each condition that is given has to fit, by one of its values.
package struct ReplaySelection: Hashable, Sendable {
    /// A request record, or one notification of it.
    package struct Place: Hashable, Sendable, CustomStringConvertible {
        package var topic: String
        package var partition: Int32
        package var offset: Int64
        /// `nil` for all notifications of the record.
        package var index: Int32?

        /// Reads `TOPIC/PARTITION/OFFSET` or `TOPIC/PARTITION/OFFSET/INDEX`; returns `nil` for anything else.
        package init?(_ text: String) {
            let isWhole = text.utf8.count { $0 == UInt8(ascii: "/") } == 2
            guard let request = DeliveryResult.Request(text: isWhole ? text + "/0" : text) else { return nil }
            topic = request.topic
            partition = request.partition
            offset = request.offset
            index = isWhole ? nil : request.index
        }

        package var description: String { "\(topic)/\(partition)/\(offset)" + (index.map { "/\($0)" } ?? "") }

        /// - Parameter index: `nil` for a dead letter, which stands for the whole record.
        package func fits(_ topic: String, _ partition: Int32, _ offset: Int64, index: Int32?) -> Bool {
            self.offset == offset && self.partition == partition && self.topic == topic
                && (self.index == nil || index == nil || self.index == index)
        }
    }

    /// Apple's reasons, or those of dead letters.
    package var reasons: Set<String> = []
    /// If it is empty, any outcome but `accepted`, which is only selected by name.
    package var outcomes: Set<Outcome> = []
    package var apps: Set<String> = []
    /// The earliest time at which the notification settled or became a dead letter, in milliseconds since the epoch.
    package var sinceMs: Int64?
    package var untilMs: Int64?
    package var places: Set<Place> = []

    package init() {}

    func matches(_ result: DeliveryResult) -> Bool {
        let request = result.request
        return (outcomes.isEmpty ? result.outcome != .accepted : outcomes.contains(result.outcome))
            && (reasons.isEmpty || result.reason.map { reasons.contains($0.rawValue) } ?? false)
            && (apps.isEmpty || result.app.map { apps.contains($0) } ?? false)
            && isInTime(result.settledAtMs)
            && isNamed(request.topic, request.partition, request.offset, index: request.index)
    }

    /// - Parameter writtenMs: the dead letter's own timestamp.
    func matches(_ letter: DeadLetter, writtenMs: Int64) -> Bool {
        (reasons.isEmpty || reasons.contains(letter.reason)) && isInTime(writtenMs)
            && isNamed(letter.topic, letter.partition, letter.offset, index: nil)
    }

    private func isInTime(_ timeMs: Int64) -> Bool {
        (sinceMs.map { timeMs >= $0 } ?? true) && (untilMs.map { timeMs < $0 } ?? true)
    }

    private func isNamed(_ topic: String, _ partition: Int32, _ offset: Int64, index: Int32?) -> Bool {
        places.isEmpty || places.contains { $0.fits(topic, partition, offset, index: index) }
    }
}

package struct ReplayOrder: Sendable {
    package var source = ReplaySource.results
    package var topic = ""
    package var selection = ReplaySelection()
    /// The retry topics, whose dead letters go back to them.
    package var retryTopics: Set<String> = []
    /// Whether the workers read requests from a topic.
    package var isRequestTopic: @Sendable (String) -> Bool = { _ in false }
    /// Where the requests go; `nil` for the topic that each came from.
    package var target: String?
    package var expiredToo = false
    /// The most requests a second; `nil` for no limit.
    package var ratePerSecond: Int?
    package var isDryRun = false
    package var job = ""
    /// The consumer group whose offsets are the job's progress, and the producer's `transactional.id`.
    package var group = ""
    /// `results.copy_headers` of the configuration.
    package var copyHeaders: [String] = []
    /// Tells this job from one with other conditions (`fingerprint(_:)`).
    package var fingerprint = ""

    package init() {}

    /// Returns hex digits of the conditions as they were given. A time such as `2h` counts as it stands, so that the
    /// same command is the same job when it is run again.
    package static func fingerprint(_ conditions: [String]) -> String {
        var hash = FNV1a()
        for condition in conditions.sorted() { hash.add("\(condition)\0".utf8) }
        return String(hash.value, radix: 16)
    }
}

internal import Bytes
package import PushRecords

package enum ReplaySource: String, CaseIterable, Sendable {
    case results
    case deadLetters = "dead-letters"
}

/// The conditions that select results or dead letters. A record must match at least one value of each given condition.
package struct ReplaySelection: Hashable, Sendable {
    /// The position of a request record or of one of its notifications.
    package struct Place: Hashable, Sendable, CustomStringConvertible {
        package let description: String
        package let request: DeliveryResult.Request
        /// Whether the position has no index, so that it selects all notifications of the record.
        package let isWhole: Bool

        /// Parses `TOPIC/PARTITION/OFFSET` or `TOPIC/PARTITION/OFFSET/INDEX`. Returns `nil` for any other text.
        package init?(_ text: String) {
            isWhole = text.utf8.count { $0 == UInt8(ascii: "/") } == 2
            guard let request = DeliveryResult.Request(text: isWhole ? text + "/0" : text) else { return nil }
            self.request = request
            description = text
        }

        /// - Parameter index: The notification's index, or `nil` for a dead letter, which represents the whole record.
        package func fits(_ topic: String, _ partition: Int32, _ offset: Int64, index: Int32?) -> Bool {
            request.offset == offset && request.partition == partition && request.topic == topic
                && (isWhole || index == nil || request.index == index)
        }
    }

    /// The values of `reason` in the results or dead letters to select.
    package var reasons: [String] = []
    /// The outcomes to select. If empty, all outcomes except `accepted` are selected.
    package var outcomes: [Outcome] = []
    package var apps: [String] = []
    /// The earliest time of the results or dead letters to select, in milliseconds since the epoch.
    package var sinceMs: Int64?
    package var untilMs: Int64?
    package var places: [Place] = []

    package init() {}

    func matches(_ result: DeliveryResult) -> Bool {
        let request = result.request
        return (outcomes.isEmpty ? result.outcome != .accepted : outcomes.contains(result.outcome))
            && (reasons.isEmpty || result.reason.map { reasons.contains($0.rawValue) } ?? false)
            && (apps.isEmpty || result.app.map { apps.contains($0) } ?? false)
            && isInTime(result.settledAtMs)
            && isNamed(request.topic, request.partition, request.offset, index: request.index)
    }

    /// - Parameter writtenMs: The timestamp of the dead letter's record.
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
    /// The retry topics. Unless `target` is set, a dead letter from a retry topic is produced to that topic again.
    package var retryTopics: Set<String> = []
    /// Whether the workers read requests from a topic.
    package var isRequestTopic: @Sendable (String) -> Bool = { _ in false }
    /// The topic for the new requests, or `nil` to use the topic of each original request.
    package var target: String?
    package var expiredToo = false
    package var ratePerSecond: Int?
    package var isDryRun = false
    package var job = ""
    /// The consumer group whose committed offsets store the job's progress. It is also the producer's
    /// `transactional.id`.
    package var group = ""
    package var copyHeaders: [String] = []
    /// The hash of the conditions, which distinguishes this job from other jobs (`fingerprint(_:)`).
    package var fingerprint = ""

    package init() {}

    /// Returns a hash of the conditions in hex. A relative time such as `2h` is hashed as text, so that a repeated
    /// command resumes the same job.
    package static func fingerprint(_ conditions: [String]) -> String {
        var hash = FNV1a()
        for condition in conditions.sorted() { hash.add("\(condition)\0".utf8) }
        return String(hash.value, radix: 16)
    }
}

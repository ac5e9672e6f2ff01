internal import Bytes

/// What a replay is told to do.
package struct ReplayOrder: Sendable {
    package var source: ReplaySource
    /// The topic of the results or dead letters.
    package var topic: String
    package var selection: ReplaySelection
    /// Those that requests may be of.
    package var topics: ReplayTopics
    /// Where the requests go; `nil`: to the topic that each came from.
    package var target: String?
    /// Whether to ask again for what has expired.
    package var expiredToo = false
    /// Requests a second, at most; `nil`: as fast as it goes.
    package var ratePerSecond: Int?
    /// Nothing is written: it only says what would be.
    package var isDryRun = false
    /// The consumer group whose offsets are the job's progress, and the producer's `transactional.id`.
    package var group: String
    /// `results.copy_headers` of the configuration.
    package var copyHeaders: [String] = []
    /// What tells this job from one with other conditions (`fingerprint(_:)`).
    package var fingerprint: String

    package init(
        _ source: ReplaySource, topic: String, _ selection: ReplaySelection, of topics: ReplayTopics, group: String,
        fingerprint: String
    ) {
        self.source = source
        self.topic = topic
        self.selection = selection
        self.topics = topics
        self.group = group
        self.fingerprint = fingerprint
    }

    /// 16 hex digits of the conditions as they were given: a time such as `2h` counts as it stands, so that the same
    /// command is the same job when it is run again.
    package static func fingerprint(_ conditions: [String]) -> String {
        var hash = FNV1a()
        for condition in conditions.sorted() {
            hash.add(condition.utf8)
            hash.add(0 as UInt8)
        }
        let digits = String(hash.value, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// Why a replay does not go on: one line that says what to do.
package struct ReplayFailure: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    /// It was told to stop, or its time is over: what is not done yet, the same command does.
    package let isStop: Bool

    package init(_ description: String, isStop: Bool = false) {
        self.description = description
        self.isStop = isStop
    }
}

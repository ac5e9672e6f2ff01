package import PushRecords

/// Where a replay finds what to ask for again.
package enum ReplaySource: String, CaseIterable, Sendable {
    case results
    case deadLetters = "dead-letters"
}

/// Which results or dead letters are meant: each condition that is given has to fit, by one of its values.
package struct ReplaySelection: Hashable, Sendable {
    /// A request record, or one notification of it.
    package struct Place: Hashable, Sendable, CustomStringConvertible {
        package var topic: String
        package var partition: Int32
        package var offset: Int64
        /// `nil`: all of them.
        package var index: Int32?

        /// Reads `TOPIC/PARTITION/OFFSET` or `TOPIC/PARTITION/OFFSET/INDEX`; `nil` for anything else.
        package init?(_ text: String) {
            let isWhole = text.utf8.count { $0 == UInt8(ascii: "/") } == 2
            guard let request = DeliveryResult.Request(text: isWhole ? text + "/0" : text) else { return nil }
            topic = request.topic
            partition = request.partition
            offset = request.offset
            index = isWhole ? nil : request.index
        }

        package var description: String { "\(topic)/\(partition)/\(offset)" + (index.map { "/\($0)" } ?? "") }
    }

    /// Apple's words, or those of dead letters.
    package var reasons: Set<String> = []
    /// Empty: any but `accepted`, which is only meant where it is named.
    package var outcomes: Set<Outcome> = []
    package var apps: Set<String> = []
    /// When it settled, or became a dead letter: from this time on, in milliseconds since the epoch.
    package var sinceMs: Int64?
    /// Before this time.
    package var untilMs: Int64?
    package var places: Set<Place> = []
    /// More a commit's metadata could not tell apart (`offset.metadata.max.bytes` is 4096 by default).
    package static let placeLimit = 10_000

    /// The places in one order: by their numbers a job's commits name them.
    package var orderedPlaces: [Place] {
        places.sorted {
            ($0.topic, $0.partition, $0.offset, $0.index ?? -1) < ($1.topic, $1.partition, $1.offset, $1.index ?? -1)
        }
    }

    package init() {}

    package func matches(_ result: DeliveryResult) -> Bool {
        guard outcomes.isEmpty ? result.outcome != .accepted : outcomes.contains(result.outcome) else { return false }
        if !reasons.isEmpty {
            guard let reason = result.reason, reasons.contains(reason.rawValue) else { return false }
        }
        if !apps.isEmpty {
            guard let app = result.app, apps.contains(app) else { return false }
        }
        let request = result.request
        return isInTime(result.settledAtMs)
            && names(request.topic, request.partition, request.offset, to: request.offset, index: request.index)
    }

    /// - Parameter writtenMs: the dead letter's own timestamp.
    package func matches(_ letter: DeadLetter, writtenMs: Int64) -> Bool {
        guard reasons.isEmpty || reasons.contains(letter.reason) else { return false }
        return isInTime(writtenMs)
            && names(
                letter.topic, letter.partition, letter.offset, to: letter.lastOffset ?? letter.offset, index: nil)
    }

    private func isInTime(_ timeMs: Int64) -> Bool {
        (sinceMs.map { timeMs >= $0 } ?? true) && (untilMs.map { timeMs < $0 } ?? true)
    }

    private func names(
        _ topic: String, _ partition: Int32, _ offset: Int64, to lastOffset: Int64, index: Int32?
    ) -> Bool {
        if places.isEmpty { return true }
        return places.contains { place in
            place.partition == partition && place.topic == topic && place.offset >= offset && place.offset <= lastOffset
                && (place.index == nil || index == nil || place.index == index)
        }
    }
}

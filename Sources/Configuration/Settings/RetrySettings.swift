package struct RetrySettings: Hashable, Sendable {
    /// A retry topic. A notification in it waits for `delay`, or until its `push-not-before` if that is earlier.
    package struct Tier: Hashable, Sendable, CustomStringConvertible {
        /// The delay as written in the configuration, such as `30s`.
        package var name: String
        package var delay: Duration
        package var topic: String

        package var description: String { "\(name): \(topic)" }
    }

    /// The retry topics, at least one, ordered by delay and without duplicate delays.
    package var tiers = [
        Tier(name: "30s", delay: .seconds(30), topic: "apns.retry.30s"),
        Tier(name: "15m", delay: .seconds(900), topic: "apns.retry.15m"),
        Tier(name: "2h", delay: .seconds(7_200), topic: "apns.retry.2h"),
    ]
    /// The number of retries after which a notification is `abandoned`.
    package var maxAttempts = 5
}

extension RetrySettings {
    mutating func read(_ section: inout Section) {
        section.read("tiers", into: &tiers) { Self.tiers(reading: $0) }
        section.read("max_attempts", into: &maxAttempts) { $0.integer(1...100) }
    }

    private static func tiers(reading value: Value) -> [Tier]? {
        guard let section = value.section() else { return nil }
        var tiers: [Tier] = []
        for (name, mark, value) in section.pairs {
            guard let delay = Quantity.duration(name), (.milliseconds(1)...(.seconds(7 * 86_400))).contains(delay)
            else {
                value.reading.refuse(
                    value.path,
                    "the name of a tier must be its delay, from 1ms to 168h, such as 30s; found \(quoted(name))",
                    at: mark)
                continue
            }
            if let same = tiers.first(where: { $0.delay == delay }) {
                value.reading.refuse(value.path, "has the same delay as the tier \(same.name)", at: mark)
                continue
            }
            guard let topic = value.topicName() else { continue }
            // Reject a retry topic whose name contradicts its delay, such as `apns.retry.15m` under `30s`.
            if let suffix = topic.split(separator: ".").last, let spelt = Quantity.duration(suffix), spelt != delay {
                value.refuse("the topic's name ends in \(suffix), but its tier is \(name)")
                continue
            }
            tiers.append(Tier(name: name, delay: delay, topic: topic))
        }
        guard !section.pairs.isEmpty, section.pairs.count <= 16 else {
            return value.rejected("must have 1 to 16 tiers, such as {30s: apns.retry.30s}")
        }
        return tiers.isEmpty ? nil : tiers.sorted { $0.delay < $1.delay }
    }
}

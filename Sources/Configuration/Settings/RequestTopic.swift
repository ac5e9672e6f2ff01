import Glibc

package struct RequestTopic: Hashable, Sendable, CustomStringConvertible {
    /// A topic name, or a POSIX extended regular expression that starts with `^`, as in librdkafka.
    package var name: String
    /// The topic's weight, from 1 to 1,000. Topics share scarce streams and memory in proportion to their weights. If a
    /// topic matches several entries, the entry with the topic's exact name applies. Without such an entry, the first
    /// matching pattern applies.
    package var weight = 1
    /// The app of requests that name no app, unless the request's `apns-topic` or environment belongs to another app.
    /// With `nil` and several apps, each request must name its app or its `apns-topic`. If a topic matches several
    /// entries, `app` comes from the same entry as `weight`.
    package var app: String?

    package var isPattern: Bool { name.hasPrefix("^") }

    package var description: String {
        self == Self(name: name) ? name : "{name: \(name), weight: \(weight)\(app.map { ", app: \($0)" } ?? "")}"
    }
}

extension RequestTopic {
    /// Kafka's internal topics, which patterns do not match. A worker that consumed `__consumer_offsets` would produce
    /// a dead letter for each of its own commits, and commit again.
    package static let internalTopics = [
        "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata",
    ]

    /// Returns the topics that this entry matches, by librdkafka's rules and without `internalTopics`.
    package func matching(_ topics: some Sequence<String>) -> [String] {
        guard isPattern else { return topics.filter { $0 == name } }
        guard let pattern = try? Pattern(name) else { return [] }
        return topics.filter { pattern.matches($0) && !Self.internalTopics.contains($0) }
    }

    static func list(reading value: Value) -> [RequestTopic]? {
        value.list(limit: 100) { item in
            guard item.isMapping else { return item.topicNameOrPattern().map { RequestTopic(name: $0) } }
            return item.section { section in
                var topic = RequestTopic(name: "")
                section.required("name", into: &topic.name) { $0.topicNameOrPattern() }
                section.read("weight", into: &topic.weight) { $0.integer(1...1_000) }
                section.read("app", into: &topic.app) { $0.text("the name of an app") }
                return topic.name.isEmpty ? nil : topic
            }
        }
    }
}

/// A POSIX extended regular expression of the C library, as librdkafka uses for topics (`rdregex.c`).
@safe final class Pattern {
    private var compiled = unsafe regex_t()

    init(_ text: String) throws(InvalidText) {
        let code = unsafe regcomp(&compiled, text, REG_EXTENDED | REG_NOSUB)
        guard code == 0 else {
            var message = [UInt8](repeating: 0, count: 200)
            let length = unsafe message.withUnsafeMutableBytes { unsafe regerror(code, nil, $0.baseAddress, $0.count) }
            throw InvalidText(description: String(decoding: message.prefix(max(0, Int(length) - 1)), as: UTF8.self))
        }
    }

    deinit { unsafe regfree(&compiled) }

    func matches(_ text: String) -> Bool {
        unsafe regexec(&compiled, text, 0, nil, 0) == 0
    }
}

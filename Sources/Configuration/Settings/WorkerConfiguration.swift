package import Observability

/// The validated settings of a worker, from a file or from flags. The initial values are the defaults.
package struct WorkerConfiguration: Hashable, Sendable {
    package var kafka: KafkaSettings
    /// The request topics: at least one, without duplicates.
    package var requestTopics: [RequestTopic] = [RequestTopic(name: "apns.requests")]
    package var results = ResultSettings()
    package var unregistered = UnregisteredSettings()
    package var deadLetters = DeadLetterSettings()
    package var retry = RetrySettings()
    package var delivery = DeliverySettings()
    /// The apps: at least one, without duplicate names.
    package var apps: [AppSettings]
    package var drain = DrainSettings()
    package var admin = AdminSettings()
    package var log = LogSettings()
    package var crash = CrashHandling.contain
    /// The settings by path, such as `apps[shop].paused`, with defaults. A file is set by its name, not by its content.
    package var settings: [String: Setting] = [:]

    /// The topics to which the worker produces, with their configuration keys.
    package var outputTopics: [(path: String, name: String)] {
        [
            ("results.topic", results.topic), ("unregistered.topic", unregistered.topic),
            ("dead_letters.topic", deadLetters.topic),
        ] + retry.tiers.map { ("retry.tiers.\($0.name)", $0.topic) }
    }
}

/// The reaction to a worker process that was killed by a signal (the setting `crash`).
package enum CrashHandling: String, CaseIterable, Sendable {
    /// A supervisor restarts the worker, and a record that crashes the worker twice becomes a dead letter.
    case contain
    /// The worker runs without a supervisor, so a crash ends the command. For developers.
    case core
}

package struct ResultSettings: Hashable, Sendable {
    package enum Publish: String, CaseIterable, Sendable {
        case all
        /// The worker publishes all results except those of accepted notifications that are not in doubt. It only
        /// counts the omitted results.
        case failures
    }

    package var topic = "apns.results"
    package var publish = Publish.all
    /// At most 32 names of request headers to copy into results, besides `traceparent`, `tracestate`, `push-replay-of`.
    package var copyHeaders: [String] = []
}

package struct UnregisteredSettings: Hashable, Sendable {
    package var topic = "apns.unregistered"
    /// Whether tokens that APNs rejects with `BadDeviceToken` or `DeviceTokenNotForTopic` count as dead tokens.
    package var includeBadTokens = false
}

package struct DeadLetterSettings: Hashable, Sendable {
    package var topic = "apns.dead-letters"
}

/// How long a rebalance or a shutdown waits for unanswered notifications (the section `drain`).
package struct DrainSettings: Hashable, Sendable {
    package var rebalance = Duration.seconds(30)
    package var shutdown = Duration.seconds(12)
}

package struct AdminSettings: Hashable, Sendable {
    /// The address of the status pages, or `nil` for no pages. Port 0 selects a free port.
    package var listen: NetworkAddress? = NetworkAddress(host: "127.0.0.1", port: 9_464)
}

package struct LogSettings: Hashable, Sendable {
    package var level = Level.info
    package var parts: [Part: Level] = [:]
    package var format = LineFormat.text

    package var levels: LevelTable { LevelTable(level, parts: parts) }
}

extension WorkerConfiguration {
    /// Reads the whole configuration document. A rejected value is replaced by its default or by an empty value.
    init(reading document: inout Section) {
        self.init(kafka: KafkaSettings(bootstrapServers: ""), apps: [])
        document.section("kafka") { kafka.read(&$0) }
        document.section("requests") { section in
            section.read("topics", into: &requestTopics) { RequestTopic.list(reading: $0) }
        }
        document.section("results") { results.read(&$0) }
        document.section("unregistered") { section in
            section.read("topic", into: &unregistered.topic) { $0.topicName() }
            section.read("include_bad_tokens", into: &unregistered.includeBadTokens) { $0.boolean() }
        }
        document.section("dead_letters") { section in
            section.read("topic", into: &deadLetters.topic) { $0.topicName() }
        }
        document.section("retry") { retry.read(&$0) }
        document.section("delivery") { delivery.read(&$0) }
        document.required("apps", into: &apps) { AppSettings.list(reading: $0) }
        document.section("drain") { section in
            let range = Duration.milliseconds(100)...Duration.seconds(3_600)
            section.read("rebalance", into: &drain.rebalance) { $0.duration(range) }
            section.read("shutdown", into: &drain.shutdown) { $0.duration(range) }
        }
        document.section("admin") { admin.read(&$0) }
        document.section("log") { log.read(&$0) }
        document.read("crash", into: &crash) { $0.choice() }
        document.finish()
    }
}

extension ResultSettings {
    fileprivate mutating func read(_ section: inout Section) {
        section.read("topic", into: &topic) { $0.topicName() }
        section.read("publish", into: &publish) { $0.choice() }
        section.read("copy_headers", into: &copyHeaders) { value in
            value.distinctTexts(limit: 32, orEmpty: true) { item in
                let name = item.text("a header's name of at most 100 bytes", where: { $0.utf8.count <= 100 })
                if let name, let reason = Self.reasonNotToCopy(name) { item.refuse(reason) }
                return name
            }
        }
    }

    private static func reasonNotToCopy(_ name: String) -> String? {
        if ["outcome", "reason"].contains(name) { return "results have their own header \(name)" }
        let advice = "use a different header to distinguish results, such as x-campaign"
        return switch name.lowercased().prefix(5) {
        case "apns-": "\(quoted(name)) is one of Apple's headers, which are not copied to results; \(advice)"
        case "push-": "\(quoted(name)) is reserved for the worker; \(advice)"
        default: nil
        }
    }
}

extension AdminSettings {
    fileprivate mutating func read(_ section: inout Section) {
        section.read("listen", into: &listen) { value in
            let expectation = "host:port, such as 127.0.0.1:9464 or [::1]:9464, or off"
            let text = value.text(expectation, where: { $0 == "off" || NetworkAddress($0) != nil })
            return text.map { NetworkAddress($0) }
        }
    }
}

extension LogSettings {
    fileprivate mutating func read(_ section: inout Section) {
        section.read("level", into: &level) { $0.choice() }
        section.read("format", into: &format) { $0.choice() }
        section.section("parts") { section in
            for part in Part.allCases {
                section.read(part.rawValue, into: &parts[part]) { $0.choice(Level.self) }
            }
        }
    }
}

/// The settings of Apple's retired binary provider protocol: the section `binary` of an app with `transport: binary`.
package struct BinarySettings: Hashable, Sendable {
    package enum Format: String, CaseIterable, Sendable {
        /// The frame format without identifiers, in which an error does not name the notification that caused it.
        case simple
        case enhanced
        case framed
    }

    package struct Window: Hashable, Sendable {
        /// The time without an error response after which a notification counts as accepted.
        package var duration = Duration.seconds(2)
        package var limit = 100_000
        /// The maximum total size of the frames in the resend window, in bytes.
        package var bytes = 32 << 20
        /// Whether the worker increases `duration`, up to `drain.rebalance`, after an error that arrives later than
        /// `duration`.
        package var adjusts = true
    }

    package struct Feedback: Hashable, Sendable {
        /// The host of the feedback service: a name or an address (IPv6 without brackets).
        package var host: String
        package var port = Self.port
        /// The time between the starts of successive reads of the feedback service. With 0, only the command
        /// `apns-worker feedback` reads it.
        package var interval = Duration.seconds(3_600)

        package static let port = 2_196
    }

    package static let port = 2_195

    package var format = Format.framed
    package var window = Window()
    /// Whether the worker resends notifications that the gateway discarded after an error.
    package var resends = true
    /// Whether the gateway rejects a device token of zeros. The worker sends a frame with that token (a fence) to
    /// find out the outcome of the frames sent before it.
    package var answersFence = true
    package var payloadLimit = 2_048
    package var feedback: Feedback?

    package init() {}
}

extension BinarySettings {
    init(in section: inout Section) {
        self.init()
        section.section("binary") { section in
            section.read("format", into: &format) { $0.choice() }
            section.read("payload_limit", into: &payloadLimit) { $0.integer(1...65_535) }
            section.read("resend", into: &resends) { $0.boolean() }
            section.read("fence", into: &answersFence) { $0.boolean() }
            section.section("window") { section in
                let range = Duration.milliseconds(10)...Duration.seconds(600)
                section.read("duration", into: &window.duration) { $0.duration(range) }
                section.read("limit", into: &window.limit) { $0.integer(1...1_000_000) }
                section.read("bytes", into: &window.bytes) { $0.size((64 << 10)...(1 << 30)) }
                section.read("auto_adjust", into: &window.adjusts) { $0.boolean() }
            }
            feedback = Feedback(in: &section)
        }
    }
}

extension BinarySettings.Feedback {
    /// Returns `nil` if the section `feedback` is absent or has no host.
    fileprivate init?(in section: inout Section) {
        var feedback = Self(host: "")
        let isThere = section.has("feedback")
        section.section("feedback") { section in
            section.read("host", into: &feedback.host) { $0.hostName() }
            section.read("port", into: &feedback.port) { $0.integer(1...65_535) }
            let range = Duration.seconds(1)...Duration.seconds(7 * 86_400)
            section.read("interval", into: &feedback.interval) { $0.duration(range, orZero: true) }
            if isThere, !section.has("host") { section.refuseMissing("host") }
        }
        guard !feedback.host.isEmpty else { return nil }
        self = feedback
    }
}

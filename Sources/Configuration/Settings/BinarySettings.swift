/// `binary` of an app whose `transport` is that: how it speaks Apple's retired binary provider protocol.
package struct BinarySettings: Hashable, Sendable {
    /// What the frame of a notification looks like.
    package enum Format: String, CaseIterable, Sendable {
        /// Without identifiers: no error says whose it is.
        case simple
        case enhanced
        case framed
    }

    package struct Window: Hashable, Sendable {
        /// From when a notification has left until the gateway's silence counts as its acceptance.
        package var duration = Duration.seconds(2)
        /// Most notifications that are open at once.
        package var limit = 100_000
        /// Most bytes of their frames.
        package var bytes = 32 << 20
        /// Errors that come later than `duration` make it longer, at most `drain.rebalance`.
        package var adjusts = true

        package init() {}
    }

    /// Where the feedback service is asked for dead tokens.
    package struct Feedback: Hashable, Sendable {
        /// A name or an address (IPv6 without brackets).
        package var host: String
        package var port = Self.port
        /// From the beginning of a read to the beginning of the next; 0: only `apns-worker feedback` reads.
        package var interval = Duration.seconds(3_600)

        /// Apple's listened there.
        package static let port = 2_196

        package init(host: String) { self.host = host }
    }

    /// A gateway that was Apple's listened there.
    package static let port = 2_195

    package var format = Format.framed
    package var window = Window()
    /// What the gateway discarded behind an error is sent again.
    package var resends = true
    /// The gateway refuses a token of zeros: by its answer, or its end, it proves that it reads.
    package var answersFence = true
    /// Bytes of a payload.
    package var payloadLimit = 2_048
    /// `nil`: nobody is asked.
    package var feedback: Feedback?

    package init() {}
}

extension BinarySettings {
    /// The defaults are those of a section that is empty.
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
    /// `nil`: there is no such section, or it names no host.
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

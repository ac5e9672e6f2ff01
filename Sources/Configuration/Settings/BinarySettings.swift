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

    /// A gateway that was Apple's listened there.
    package static let port = 2_195

    package var format = Format.framed
    package var window = Window()
    /// What the gateway discarded behind an error is sent again.
    package var resends = true
    /// Bytes of a payload.
    package var payloadLimit = 2_048

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
            section.section("window") { section in
                let range = Duration.milliseconds(10)...Duration.seconds(600)
                section.read("duration", into: &window.duration) { $0.duration(range) }
                section.read("limit", into: &window.limit) { $0.integer(1...1_000_000) }
                section.read("bytes", into: &window.bytes) { $0.size((64 << 10)...(1 << 30)) }
                section.read("auto_adjust", into: &window.adjusts) { $0.boolean() }
            }
        }
    }
}

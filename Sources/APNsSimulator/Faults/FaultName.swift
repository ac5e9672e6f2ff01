import PushRecords

/// A fault with a fixed name and a fixed device token: the names that the command line and the control endpoint take.
struct NamedFault: Sendable {
    var name: String
    /// The four digits after `fa17` of the device tokens that request it.
    var code: StaticString
    var fault: Fault
    var help: String

    /// Reasons are named by Apple's words, and `FaultFamily` lists the names with a parameter.
    static let all: [NamedFault] = [
        .init("no-answer", "f001", .noAnswer, "swallowed, never answered"),
        .init("reset-stream", "f002", .resetStream, "RST_STREAM INTERNAL_ERROR"),
        .init("refuse-stream", "f003", .refuseStream, "RST_STREAM REFUSED_STREAM: not processed"),
        .init("goaway", "f010", .goAway(.graceful), "GOAWAY; what was received is answered, then it closes"),
        .init("goaway-shutdown", "f011", .goAway(.reason(.shutdown)), "the same with {\"reason\":\"Shutdown\"}"),
        .init("goaway-text", "f016", .goAway(.text), "the same with plain text in place of a reason"),
        .init("goaway-twice", "f012", .goAway(.twice), "two GOAWAYs, the first with last-stream-id 2^31-1"),
        .init("goaway-below", "f013", .goAway(.below), "GOAWAY with last-stream-id below this request: not processed"),
        .init("goaway-now", "f014", .goAway(.immediate), "GOAWAY and closed at once, answers outstanding"),
        .init(
            "goaway-environment", "f015", .goAway(.badEnvironment),
            "GOAWAY, last-stream-id 0, BadCertificateEnvironment"),
        .init("cut-before", "f020", .cut(.before), "connection closed in place of the answer"),
        .init("cut-inside", "f021", .cut(.inside), "connection closed in the middle of the answer (accepted)"),
        .init("cut-after", "f022", .cut(.after), "connection closed after the answer (accepted)"),
        .init("tcp-reset", "f023", .cut(.reset), "TCP RST in place of the answer"),
        .init("blackhole", "f030", .blackhole, "the connection takes bytes and answers nothing any more"),
        .init("stall", "f031", .stall, "accepted; the connection gives no window back any more: bodies come to a halt"),
        .init(
            "one-stream", "f040", .oneStream,
            "accepted; SETTINGS_MAX_CONCURRENT_STREAMS 1 until the next accepted request"),
        .init("garbage", "f050", .garbage, "64 bytes of 0xff in place of the answer, and nothing after them"),
        .init(
            "split-frames", "f051", .splitFrames, "accepted; from now on the connection sends 1 to 7 bytes at a time"),
        .init("slow-frames", "f052", .slowFrames, "accepted; from now on it sends 1 to 7 bytes every 2 ms"),
        .init(
            "out-of-order", "f053", .outOfOrder, "accepted; from now on it answers what comes within 20 ms last first"),
    ]

    private init(_ name: String, _ code: StaticString, _ fault: Fault, _ help: String) {
        self.name = name
        self.code = code
        self.fault = fault
        self.help = help
    }
}

/// Faults whose name holds a number, a time or a reason.
struct FaultFamily: Sendable {
    /// What all their names begin with.
    var start: String
    /// What follows, as the help writes it: `TIME`.
    var rest: String
    var help: String
    /// The device tokens that ask for them, and what their digits mean, as the help writes it.
    var tokens: (prefix: String, digits: String)
    /// Some of their names, the ends of the range among them; each has a device token.
    var examples: [String]
    /// Returns the fault whose name ends so, if there is one.
    private var read: @Sendable (Substring) -> Fault?

    static let all: [FaultFamily] = [
        .init(
            "late-", "TIME", "accepted, and answered so much later than others",
            tokens: ("fa17dNNN", "late by NNN hundredths of a second (d150: late-1500ms)"),
            ["late-150ms", "late-0", "late-250ms"]
        ) { text in
            switch Latency(text: String(text)) {
            case .fixed(let ns)?: .late(.fixed(ns: ns))
            case .some(.none): .late(.none)
            case .uniform?, .exponential?, nil: nil
            }
        },
        .init(
            "late-~", "TIME", "the same, by chance (seeded, exponential) with this mean",
            tokens: ("fa17aNNN", "late by chance, NNN hundredths of a second in the mean (a005: late-~50ms)"),
            ["late-~50ms", "late-~10ms"]
        ) { text in
            guard case .exponential(let mean)? = Latency(text: "~\(text)") else { return nil }
            return .late(.exponential(meanNs: mean))
        },
        .init(
            "status-", "NNN", "that status (400-599) with a reason that is unknown",
            tokens: ("fa17eNNN", "status NNN with a reason that is unknown (e418: status-418)"),
            ["status-400", "status-418", "status-599"]
        ) { number($0, 400...599).map { .answer(Answer(status: UInt16($0), reason: .other, body: .unknownReason)) } },
        .init(
            "empty-", "NNN", "that status (400-599) without a body",
            tokens: ("fa17bNNN", "status NNN without a body (b503: empty-503)"),
            ["empty-400", "empty-503", "empty-599"]
        ) { number($0, 400...599).map { .answer(Answer(status: UInt16($0), reason: .other, body: .missing)) } },
        .init(
            "streams-", "NNN", "accepted; the connection's SETTINGS_MAX_CONCURRENT_STREAMS becomes 0-999",
            tokens: ("fa171NNN", "accepted; SETTINGS_MAX_CONCURRENT_STREAMS NNN (1007: streams-7)"),
            ["streams-0", "streams-7", "streams-999"]
        ) { number($0, 0...999).map { .streams(UInt32($0)) } },
        .init(
            "goaway:", "REASON", "as goaway, with that reason (goaway:IdleTimeout)",
            tokens: ("fa178NNN", "goaway with the reason of 4NNN; 9NNN: 5NNN, 2NNN: cNNN (8008: IdleTimeout)"),
            ["goaway:BadCertificate", "goaway:IdleTimeout", "goaway:ServiceUnavailable", "goaway:TopicMismatch"]
        ) { Fault.reason($0).map { .goAway(.reason($0)) } },
        .init(
            "goaway-now:", "REASON", "as goaway-now, with that reason",
            tokens: ("fa176NNN", "goaway-now with the reason of 4NNN; 7NNN: 5NNN, 3NNN: cNNN (7031: Shutdown)"),
            [
                "goaway-now:BadCertificate", "goaway-now:TooManyProviderTokenUpdates", "goaway-now:Shutdown",
                "goaway-now:FeatureNotEnabled",
            ]
        ) { Fault.reason($0).map { .goAway(.immediateReason($0)) } },
    ]

    private init(
        _ start: String, _ rest: String, _ help: String, tokens: (String, String), _ examples: [String],
        read: @escaping @Sendable (Substring) -> Fault?
    ) {
        self.start = start
        self.rest = rest
        self.help = help
        self.tokens = tokens
        self.examples = examples
        self.read = read
    }

    func fault(name: String) -> Fault? {
        name.hasPrefix(start) ? read(name.dropFirst(start.count)) : nil
    }

    private static func number(_ text: Substring, _ range: ClosedRange<Int>) -> Int? {
        guard text.allSatisfy({ $0.isASCII && $0.isNumber }), let number = Int(text) else { return nil }
        return range.contains(number) ? number : nil
    }
}

extension Fault {
    /// A fault by name: one of `NamedFault.all`, a reason of Apple's, or one of a family. Returns `nil` for other
    /// names.
    package init?(name: String) {
        if let named = NamedFault.all.first(where: { $0.name == name }) {
            self = named.fault
            return
        }
        guard
            let fault = Self.reason(name[...]).map({ Fault.answer(Answer($0)) })
                ?? FaultFamily.all.lazy.compactMap({ $0.fault(name: name) }).first
        else { return nil }
        self = fault
    }

    /// One of Apple's reasons by its text.
    static func reason(_ text: Substring) -> ReasonCode? {
        var text = text
        return text.withUTF8 { ReasonCode(text: UnsafeRawBufferPointer($0)) }
    }

    /// Its name, by which `init(name:)` finds it again.
    package var name: String {
        if let named = NamedFault.all.first(where: { $0.fault == self }) { return named.name }
        switch self {
        case .answer(let answer):
            if let text = answer.reason.text { return text.description }
            return answer.body == .missing ? "empty-\(answer.status)" : "status-\(answer.status)"
        case .late(let latency): return "late-\(latency.text)"
        case .streams(let count): return "streams-\(count)"
        case .goAway(.reason(let reason)): return "goaway:\(reason.text?.description ?? "")"
        case .goAway(.immediateReason(let reason)): return "goaway-now:\(reason.text?.description ?? "")"
        case .noAnswer, .resetStream, .refuseStream, .goAway, .cut, .blackhole, .stall, .oneStream, .garbage,
            .splitFrames, .slowFrames, .outOfOrder:
            preconditionFailure("a fault without a name")
        }
    }
}

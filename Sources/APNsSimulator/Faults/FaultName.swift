import PushRecords

/// Faults with a fixed name, which the command line and the control endpoint take, and a fixed device token.
enum NamedFault {
    /// Without Apple's reasons, which are names, too, and those of `FaultFamily`. The code is the four digits after
    /// `fa17` in device tokens that request the fault.
    static let all: [(name: String, code: StaticString, fault: Fault, help: String)] = [
        ("no-answer", "f001", .noAnswer, "swallowed, never answered"),
        ("reset-stream", "f002", .resetStream, "RST_STREAM INTERNAL_ERROR"),
        ("refuse-stream", "f003", .refuseStream, "RST_STREAM REFUSED_STREAM: not processed"),
        ("goaway", "f010", .goAway(.graceful()), "GOAWAY; what was received is answered, then it closes"),
        ("goaway-shutdown", "f011", .goAway(.graceful(.shutdown)), "the same with {\"reason\":\"Shutdown\"}"),
        ("goaway-text", "f016", .goAway(.text), "the same with plain text in place of a reason"),
        ("goaway-twice", "f012", .goAway(.twice), "two GOAWAYs, the first with last-stream-id 2^31-1"),
        ("goaway-below", "f013", .goAway(.below), "GOAWAY with last-stream-id below this request: not processed"),
        ("goaway-now", "f014", .goAway(.immediate()), "GOAWAY and closed at once, answers outstanding"),
        (
            "goaway-environment", "f015", .goAway(.badEnvironment),
            "GOAWAY, last-stream-id 0, BadCertificateEnvironment"
        ),
        ("cut-before", "f020", .cut(.before), "connection closed in place of the answer"),
        ("cut-inside", "f021", .cut(.inside), "connection closed in the middle of the answer (accepted)"),
        ("cut-after", "f022", .cut(.after), "connection closed after the answer (accepted)"),
        ("tcp-reset", "f023", .cut(.reset), "TCP RST in place of the answer"),
        ("blackhole", "f030", .blackhole, "the connection takes bytes and answers nothing any more"),
        ("stall", "f031", .stall, "accepted; the connection gives no window back any more: bodies come to a halt"),
        ("garbage", "f050", .garbage, "64 bytes of 0xff in place of the answer, and nothing after them"),
        (
            "split-frames", "f051", .splitFrames, "accepted; from now on the connection sends 1 to 7 bytes at a time"
        ),
        ("slow-frames", "f052", .slowFrames, "accepted; from now on it sends 1 to 7 bytes every 2 ms"),
        (
            "out-of-order", "f053", .outOfOrder, "accepted; from now on it answers what comes within 20 ms last first"
        ),
    ]
}

/// Faults whose name holds a number, a time or a reason.
struct FaultFamily: Sendable {
    /// The common start of their names.
    var start: String
    /// The rest, as the help writes it: `TIME`.
    var rest: String
    var help: String
    /// Returns the fault whose name has this rest, if there is one.
    var read: @Sendable (Substring) -> Fault?
    /// The first of the four digits of device tokens that request them, and the meaning of the other three.
    var tokens: (digit: UInt16, help: String)?

    static let all: [FaultFamily] = [
        .init(
            start: "late-", rest: "TIME",
            help: "accepted, and answered so much later; late-~TIME: by chance (exponential), with this mean",
            read: { text in
                switch Latency(text: String(text)) {
                case .uniform?, nil: nil
                case let latency?: .late(latency)
                }
            },
            tokens: (0xD, "late by NNN hundredths of a second (d150: late-1500ms)")),
        .init(
            start: "status-", rest: "NNN", help: "that status (400-599) with a reason that is unknown",
            read: { number($0, 400...599).map { answer($0, .unknownReason) } },
            tokens: (0xE, "status NNN with a reason that is unknown (e418: status-418)")),
        .init(
            start: "empty-", rest: "NNN", help: "that status (400-599) without a body",
            read: { number($0, 400...599).map { answer($0, .missing) } },
            tokens: (0xB, "status NNN without a body (b503: empty-503)")),
        .init(
            start: "streams-", rest: "NNN",
            help: "accepted; the connection's SETTINGS_MAX_CONCURRENT_STREAMS becomes 0-999",
            read: { number($0, 0...999).map { .streams(UInt32($0)) } },
            tokens: (0x1, "accepted; SETTINGS_MAX_CONCURRENT_STREAMS NNN (1007: streams-7)")),
        .init(start: "goaway:", rest: "REASON", help: "as goaway, with that reason (goaway:IdleTimeout)") {
            ReasonCode($0).map { .goAway(.graceful($0)) }
        },
        .init(start: "goaway-now:", rest: "REASON", help: "as goaway-now, with that reason") {
            ReasonCode($0).map { .goAway(.immediate($0)) }
        },
    ]

    func fault(name: String) -> Fault? {
        name.hasPrefix(start) ? read(name.dropFirst(start.count)) : nil
    }

    private static func number(_ text: Substring, _ range: ClosedRange<Int>) -> Int? {
        guard text.allSatisfy({ $0.isASCII && $0.isNumber }), let number = Int(text) else { return nil }
        return range.contains(number) ? number : nil
    }

    private static func answer(_ status: Int, _ body: Answer.Body) -> Fault {
        .answer(Answer(status: UInt16(status), reason: .other, body: body))
    }
}

extension Fault {
    /// A fault by name: one of `NamedFault.all`, one of Apple's reasons, or one of a family.
    init?(name: String) {
        guard
            let fault = NamedFault.all.first(where: { $0.name == name })?.fault
                ?? ReasonCode(name).map({ Fault.answer(Answer($0)) })
                ?? FaultFamily.all.lazy.compactMap({ $0.fault(name: name) }).first
        else { return nil }
        self = fault
    }

    /// The name that `init(name:)` takes.
    var name: String {
        if let named = NamedFault.all.first(where: { $0.fault == self }) { return named.name }
        switch self {
        case .answer(let answer) where answer.body == .reason: return answer.reason.name
        case .answer(let answer): return "\(answer.body == .missing ? "empty" : "status")-\(answer.status)"
        case .late(let latency): return "late-\(latency.text)"
        case .streams(let count): return "streams-\(count)"
        case .goAway(.graceful(let reason?)): return "goaway:\(reason.name)"
        case .goAway(.immediate(let reason?)): return "goaway-now:\(reason.name)"
        case .noAnswer, .resetStream, .refuseStream, .goAway, .cut, .blackhole, .stall, .garbage,
            .splitFrames, .slowFrames, .outOfOrder:
            preconditionFailure("a fault without a name")
        }
    }
}

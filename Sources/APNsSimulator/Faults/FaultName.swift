import PushRecords

/// Faults whose name contains a number, a time or a reason.
struct FaultFamily: Sendable {
    /// The prefix that all names of the family share, such as `late-`.
    var start: String
    /// The placeholder after the prefix in help texts, such as `TIME`.
    var rest: String
    var help: String
    /// Parses the part of a fault's name after the prefix. Returns `nil` if this part is invalid.
    var read: @Sendable (Substring) -> Fault?
    /// The first of the four digits after `fa17` in device tokens that request these faults, and the help text for
    /// these tokens. `nil` for GOAWAY faults, whose tokens `TokenTable` parses separately.
    var tokens: (digit: UInt16, help: String)?

    static let all: [FaultFamily] = [
        .init(
            start: "late-", rest: "TIME",
            help: "accepts the request, and answers after this delay; late-~TIME: exponential with this mean",
            read: { text in
                switch Latency(text: String(text)) {
                case .uniform?, nil: nil
                case let latency?: .late(latency)
                }
            },
            tokens: (0xD, "accepts the request, and answers after NNN hundredths of a second (d150: late-1500ms)")),
        .init(
            start: "status-", rest: "NNN", help: "answers with the given status (400-599) and an unknown reason",
            read: { number($0, 400...599).map { answer($0, .unknownReason) } },
            tokens: (0xE, "answers with status NNN and an unknown reason (e418: status-418)")),
        .init(
            start: "empty-", rest: "NNN", help: "answers with the given status (400-599) and no body",
            read: { number($0, 400...599).map { answer($0, .missing) } },
            tokens: (0xB, "answers with status NNN and no body (b503: empty-503)")),
        .init(
            start: "streams-", rest: "NNN",
            help: "accepts the request, and sets the connection's SETTINGS_MAX_CONCURRENT_STREAMS to NNN (0-999)",
            read: { number($0, 0...999).map { .streams(UInt32($0)) } },
            tokens: (0x1, "accepts the request, and sets SETTINGS_MAX_CONCURRENT_STREAMS to NNN (1007: streams-7)")),
        .init(start: "goaway:", rest: "REASON", help: "like goaway, with the given reason (goaway:IdleTimeout)") {
            ReasonCode($0).map { .goAway(.graceful($0)) }
        },
        .init(start: "goaway-now:", rest: "REASON", help: "like goaway-now, with the given reason") {
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
    /// The faults with a fixed name for the command line and the control endpoint. Apple's reasons and the names of
    /// `FaultFamily` are valid too. `code` is the four digits after `fa17` in device tokens that request the fault.
    static let named: [(name: String, code: StaticString, fault: Fault, help: String)] = [
        ("no-answer", "f001", .noAnswer, "neither processes nor answers the request"),
        ("reset-stream", "f002", .resetStream, "sends RST_STREAM with INTERNAL_ERROR instead of the answer"),
        (
            "refuse-stream", "f003", .refuseStream,
            "sends RST_STREAM with REFUSED_STREAM, and does not process the request"
        ),
        (
            "goaway", "f010", .goAway(.graceful()),
            "sends GOAWAY, answers the received requests, then closes the connection"
        ),
        (
            "goaway-shutdown", "f011", .goAway(.graceful(.shutdown)),
            "like goaway, with the debug data {\"reason\":\"Shutdown\"}"
        ),
        ("goaway-text", "f016", .goAway(.text), "like goaway, with plain text instead of a reason"),
        (
            "goaway-twice", "f012", .goAway(.twice),
            "like goaway, with two GOAWAYs, the first with last-stream-id 2^31-1"
        ),
        (
            "goaway-below", "f013", .goAway(.below),
            "sends GOAWAY with last-stream-id below this request, and does not process the request"
        ),
        (
            "goaway-now", "f014", .goAway(.immediate()),
            "sends GOAWAY and closes the connection immediately, without outstanding answers"
        ),
        (
            "goaway-environment", "f015", .goAway(.badEnvironment),
            "sends GOAWAY with last-stream-id 0 and the reason BadCertificateEnvironment, then closes"
        ),
        ("cut-before", "f020", .cut(.before), "closes the connection instead of answering"),
        (
            "cut-inside", "f021", .cut(.inside),
            "accepts the request, and closes the connection in the middle of the answer"
        ),
        ("cut-after", "f022", .cut(.after), "accepts the request, and closes the connection after the answer"),
        ("tcp-reset", "f023", .cut(.reset), "resets the TCP connection (RST) instead of answering"),
        ("blackhole", "f030", .blackhole, "from now on reads all bytes of the connection, and sends nothing"),
        (
            "stall", "f031", .stall,
            "accepts the request; from now on sends no WINDOW_UPDATE, so bodies stop after 65,535 bytes"
        ),
        ("garbage", "f050", .garbage, "sends 64 bytes of 0xff instead of the answer, and nothing after them"),
        (
            "split-frames", "f051", .splitFrames, "accepts the request; from now on sends 1 to 7 bytes at a time"
        ),
        ("slow-frames", "f052", .slowFrames, "accepts the request; from now on sends 1 to 7 bytes every 2 ms"),
        (
            "out-of-order", "f053", .outOfOrder,
            "accepts the request; from now on answers requests that arrive within 20 ms in reverse order"
        ),
    ]

    /// Looks up a fault by name: a name in `named`, one of Apple's reasons, or a name of a `FaultFamily`.
    init?(name: String) {
        guard
            let fault = Self.named.first(where: { $0.name == name })?.fault
                ?? ReasonCode(name).map({ Fault.answer(Answer($0)) })
                ?? FaultFamily.all.lazy.compactMap({ $0.fault(name: name) }).first
        else { return nil }
        self = fault
    }

    /// The fault's name, as `init(name:)` accepts it.
    var name: String {
        if let named = Self.named.first(where: { $0.fault == self }) { return named.name }
        switch self {
        case .answer(let answer) where answer.body == .reason: return answer.reason.name
        case .answer(let answer): return "\(answer.body == .missing ? "empty" : "status")-\(answer.status)"
        case .late(let latency): return "late-\(latency.text)"
        case .streams(let count): return "streams-\(count)"
        case .goAway(.graceful(let reason?)): return "goaway:\(reason.name)"
        case .goAway(.immediate(let reason?)): return "goaway-now:\(reason.name)"
        case .noAnswer, .resetStream, .refuseStream, .goAway, .cut, .blackhole, .stall, .garbage,
            .splitFrames, .slowFrames, .outOfOrder:
            preconditionFailure("every fault must have a name")
        }
    }
}

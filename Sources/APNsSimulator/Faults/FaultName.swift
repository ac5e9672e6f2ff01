import PushRecords

/// Faults with a fixed name for the command line and the control endpoint, and a fixed code in device tokens.
enum NamedFault {
    /// The faults with a fixed name. Apple's reasons and the names of `FaultFamily` are valid too, but not listed here.
    /// `code` is the four digits after `fa17` in device tokens that request the fault.
    static let all: [(name: String, code: StaticString, fault: Fault, help: String)] = [
        ("no-answer", "f001", .noAnswer, "the request is neither processed nor answered"),
        ("reset-stream", "f002", .resetStream, "RST_STREAM INTERNAL_ERROR"),
        ("refuse-stream", "f003", .refuseStream, "RST_STREAM REFUSED_STREAM; the request is not processed"),
        ("goaway", "f010", .goAway(.graceful()), "GOAWAY; received requests are answered, then the connection closes"),
        (
            "goaway-shutdown", "f011", .goAway(.graceful(.shutdown)),
            "goaway with the debug data {\"reason\":\"Shutdown\"}"
        ),
        ("goaway-text", "f016", .goAway(.text), "goaway with plain text instead of a reason"),
        ("goaway-twice", "f012", .goAway(.twice), "two GOAWAYs, the first with last-stream-id 2^31-1"),
        (
            "goaway-below", "f013", .goAway(.below),
            "GOAWAY with last-stream-id below this request, which is not processed"
        ),
        ("goaway-now", "f014", .goAway(.immediate()), "GOAWAY and an immediate close, without outstanding answers"),
        (
            "goaway-environment", "f015", .goAway(.badEnvironment),
            "GOAWAY with last-stream-id 0 and the reason BadCertificateEnvironment"
        ),
        ("cut-before", "f020", .cut(.before), "connection closed instead of the answer"),
        ("cut-inside", "f021", .cut(.inside), "connection closed in the middle of the answer (accepted)"),
        ("cut-after", "f022", .cut(.after), "connection closed after the answer (accepted)"),
        ("tcp-reset", "f023", .cut(.reset), "TCP RST instead of the answer"),
        ("blackhole", "f030", .blackhole, "from now on the connection reads all bytes and sends nothing"),
        ("stall", "f031", .stall, "accepted; from now on no WINDOW_UPDATE is sent, so bodies stop after 65,535 bytes"),
        ("garbage", "f050", .garbage, "64 bytes of 0xff instead of the answer, and nothing after them"),
        (
            "split-frames", "f051", .splitFrames, "accepted; from now on the connection sends 1 to 7 bytes at a time"
        ),
        ("slow-frames", "f052", .slowFrames, "accepted; from now on the connection sends 1 to 7 bytes every 2 ms"),
        (
            "out-of-order", "f053", .outOfOrder,
            "accepted; from now on, requests that arrive within 20 ms are answered in reverse order"
        ),
    ]
}

/// Faults whose name contains a number, a time or a reason.
struct FaultFamily: Sendable {
    /// The common prefix of the names of the family's faults.
    var start: String
    /// The placeholder after the prefix in help texts, such as `TIME`.
    var rest: String
    var help: String
    /// Parses the part of a fault's name after the prefix. Returns `nil` if this part is invalid.
    var read: @Sendable (Substring) -> Fault?
    /// The first of the four digits in device tokens that request these faults, and the help text for these tokens.
    /// `nil` if no token can request the faults.
    var tokens: (digit: UInt16, help: String)?

    static let all: [FaultFamily] = [
        .init(
            start: "late-", rest: "TIME",
            help: "accepted and answered after this delay; late-~TIME: exponential with this mean",
            read: { text in
                switch Latency(text: String(text)) {
                case .uniform?, nil: nil
                case let latency?: .late(latency)
                }
            },
            tokens: (0xD, "late by NNN hundredths of a second (d150: late-1500ms)")),
        .init(
            start: "status-", rest: "NNN", help: "the given status (400-599) with an unknown reason",
            read: { number($0, 400...599).map { answer($0, .unknownReason) } },
            tokens: (0xE, "status NNN with an unknown reason (e418: status-418)")),
        .init(
            start: "empty-", rest: "NNN", help: "the given status (400-599) without a body",
            read: { number($0, 400...599).map { answer($0, .missing) } },
            tokens: (0xB, "status NNN without a body (b503: empty-503)")),
        .init(
            start: "streams-", rest: "NNN",
            help: "accepted; the connection's SETTINGS_MAX_CONCURRENT_STREAMS is set to NNN (0-999)",
            read: { number($0, 0...999).map { .streams(UInt32($0)) } },
            tokens: (0x1, "accepted; SETTINGS_MAX_CONCURRENT_STREAMS NNN (1007: streams-7)")),
        .init(start: "goaway:", rest: "REASON", help: "goaway with the given reason (goaway:IdleTimeout)") {
            ReasonCode($0).map { .goAway(.graceful($0)) }
        },
        .init(start: "goaway-now:", rest: "REASON", help: "goaway-now with the given reason") {
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
    /// Looks up a fault by name: a name in `NamedFault.all`, one of Apple's reasons, or a name of a `FaultFamily`.
    init?(name: String) {
        guard
            let fault = NamedFault.all.first(where: { $0.name == name })?.fault
                ?? ReasonCode(name).map({ Fault.answer(Answer($0)) })
                ?? FaultFamily.all.lazy.compactMap({ $0.fault(name: name) }).first
        else { return nil }
        self = fault
    }

    /// The fault's name, as `init(name:)` accepts it.
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
            preconditionFailure("every fault must have a name")
        }
    }
}

import PushRecords

/// How a connection is told to end.
package enum GoAway: UInt8, CaseIterable, Sendable {
    /// GOAWAY with the highest stream received; everything up to it is answered, then the connection closes.
    case graceful
    /// The same, its debug data `{"reason":"Shutdown"}`.
    case shutdown
    /// Two: the first with the largest stream id there is, the second as `graceful`.
    case twice
    /// GOAWAY with a last stream id just below this request's: it and all later ones are not processed.
    case below
    /// GOAWAY with the highest stream received, and the connection closes at once, answers outstanding.
    case immediate
    /// GOAWAY, NO_ERROR, last stream id 0 and `{"reason":"BadCertificateEnvironment"}`; then it closes.
    case badEnvironment
}

/// Where a connection is cut.
package enum Cut: UInt8, CaseIterable, Sendable {
    /// Closed in place of the answer; the request is not processed.
    case before
    /// Closed in the middle of the answer's frames; the request is processed.
    case inside
    /// Closed right after the answer; the request is processed.
    case after
    /// TCP reset in place of the answer.
    case reset
}

/// What the simulator does to a request, or to its connection, in place of the plain answer 200.
package enum Fault: Hashable, Sendable {
    case answer(Answer)
    /// Accepted, but answered so much later, in milliseconds.
    case late(Int)
    /// Swallowed: never processed, never answered.
    case noAnswer
    /// RST_STREAM with INTERNAL_ERROR (RFC 9113, 7) in place of the answer.
    case resetStream
    /// RST_STREAM with REFUSED_STREAM: not processed.
    case refuseStream
    case goAway(GoAway)
    case cut(Cut)
    /// From now on the connection takes all bytes and answers nothing.
    case blackhole
    /// Accepted; from now on the connection gives no window back, so that bodies come to a halt after 65,535 bytes.
    case stall
    /// SETTINGS_MAX_CONCURRENT_STREAMS falls to 1, and rises again with the next accepted request.
    case oneStream
    /// 64 bytes that are no frame, and nothing after them.
    case garbage
    /// Accepted, and everything the connection still has to say goes out in pieces of 1 to 7 bytes.
    case splitFrames

    /// Whether a request that gets it counts as accepted: Apple would have shown the notification.
    var isProcessed: Bool {
        switch self {
        case .answer(let answer): answer.status == 200
        case .late, .cut(.inside), .cut(.after), .stall, .oneStream, .splitFrames: true
        case .goAway(let kind): kind == .graceful || kind == .shutdown || kind == .twice
        case .noAnswer, .resetStream, .refuseStream, .cut(.before), .cut(.reset), .blackhole, .garbage: false
        }
    }

    /// Whether the client is told that a request that gets it was not processed.
    var isUnprocessed: Bool {
        switch self {
        case .refuseStream, .goAway(.below), .goAway(.badEnvironment): true
        case .answer, .late, .noAnswer, .resetStream, .goAway, .cut, .blackhole, .stall, .oneStream, .garbage,
            .splitFrames:
            false
        }
    }

    /// Whether it concerns the connection rather than one request, so that a timer can set it off.
    var isOfConnection: Bool {
        switch self {
        case .goAway(let kind): kind != .below
        case .cut(.before), .cut(.reset), .blackhole, .stall, .oneStream, .garbage, .splitFrames: true
        case .answer, .late, .noAnswer, .resetStream, .refuseStream, .cut(.inside), .cut(.after): false
        }
    }
}

/// A fault by its name, as the command line, the control endpoint and the help write it.
struct NamedFault: Sendable {
    var name: String
    var fault: Fault
    var help: String

    /// All but the reasons, which go by Apple's words.
    static let all: [NamedFault] = [
        .init("no-answer", .noAnswer, "swallowed, never answered"),
        .init("reset-stream", .resetStream, "RST_STREAM INTERNAL_ERROR"),
        .init("refuse-stream", .refuseStream, "RST_STREAM REFUSED_STREAM: not processed"),
        .init("goaway", .goAway(.graceful), "GOAWAY; what was received is answered, then it closes"),
        .init("goaway-shutdown", .goAway(.shutdown), "the same with {\"reason\":\"Shutdown\"}"),
        .init("goaway-twice", .goAway(.twice), "two GOAWAYs, the first with last-stream-id 2^31-1"),
        .init("goaway-below", .goAway(.below), "GOAWAY with last-stream-id below this request: not processed"),
        .init("goaway-now", .goAway(.immediate), "GOAWAY and closed at once, answers outstanding"),
        .init("goaway-environment", .goAway(.badEnvironment), "GOAWAY, last-stream-id 0, BadCertificateEnvironment"),
        .init("cut-before", .cut(.before), "connection closed in place of the answer"),
        .init("cut-inside", .cut(.inside), "connection closed in the middle of the answer (accepted)"),
        .init("cut-after", .cut(.after), "connection closed after the answer (accepted)"),
        .init("tcp-reset", .cut(.reset), "TCP RST in place of the answer"),
        .init("blackhole", .blackhole, "the connection takes bytes and answers nothing any more"),
        .init("stall", .stall, "accepted; the connection gives no window back any more: bodies come to a halt"),
        .init("one-stream", .oneStream, "accepted; SETTINGS_MAX_CONCURRENT_STREAMS 1 until the next accepted request"),
        .init("garbage", .garbage, "64 bytes of 0xff in place of the answer, and nothing after them"),
        .init("split-frames", .splitFrames, "accepted; from now on the connection sends 1 to 7 bytes at a time"),
    ]

    private init(_ name: String, _ fault: Fault, _ help: String) {
        self.name = name
        self.fault = fault
        self.help = help
    }
}

extension Fault {
    /// A fault by name: one of `NamedFault.all`, or a reason of Apple's; `nil`: no such name.
    package init?(name: String) {
        if let named = NamedFault.all.first(where: { $0.name == name }) {
            self = named.fault
            return
        }
        var text = name
        let reason = text.withUTF8 { ReasonCode(text: UnsafeRawBufferPointer($0)) }
        guard let reason else { return nil }
        self = .answer(Answer(reason))
    }

    /// Its name: the inverse of `init(name:)` where it has one.
    package var name: String {
        if let named = NamedFault.all.first(where: { $0.fault == self }) { return named.name }
        switch self {
        case .answer(let answer): return answer.reason.text?.description ?? "status-\(answer.status)"
        case .late(let milliseconds): return "late-\(milliseconds)ms"
        case .noAnswer, .resetStream, .refuseStream, .goAway, .cut, .blackhole, .stall, .oneStream, .garbage,
            .splitFrames:
            return "fault"
        }
    }
}

import PushRecords

/// A way to end a connection with GOAWAY.
enum GoAway: Hashable, Sendable {
    /// GOAWAY with the highest stream received; everything up to it is answered, then the connection closes. Its debug
    /// data is `{"reason": …}` if there is one.
    case graceful(ReasonCode? = nil)
    /// The same, its debug data plain text.
    case text
    /// Two: the first with the largest stream id there is, the second as `graceful`.
    case twice
    /// GOAWAY with a last stream id just below this request's: it and all later ones are not processed.
    case below
    /// GOAWAY with the highest stream received, and the connection closes at once, answers outstanding. Its debug data
    /// is `{"reason": …}` if there is one.
    case immediate(ReasonCode? = nil)
    /// GOAWAY, NO_ERROR, last stream id 0 and `{"reason":"BadCertificateEnvironment"}`; then it closes.
    case badEnvironment

    var debugData: String {
        switch self {
        case .graceful(let reason?), .immediate(let reason?): "{\"reason\":\"\(reason.name)\"}"
        case .badEnvironment: "{\"reason\":\"\(ReasonCode.badCertificateEnvironment.name)\"}"
        case .text: "the server is going away"
        case .graceful, .twice, .below, .immediate: ""
        }
    }

    /// Whether a request that meets it is answered first.
    var isAnswered: Bool {
        switch self {
        case .graceful, .text, .twice: true
        case .below, .immediate, .badEnvironment: false
        }
    }
}

extension ReasonCode {
    /// Apple's word, or nothing for one that Apple does not have.
    var name: String { text?.description ?? "" }
}

/// Where a connection is cut.
enum Cut: UInt8, CaseIterable, Sendable {
    /// Closed in place of the answer; the request is not processed.
    case before
    /// Closed in the middle of the answer's frames; the request is processed.
    case inside
    /// Closed right after the answer; the request is processed.
    case after
    /// TCP reset in place of the answer.
    case reset
}

/// A fault of a request or its connection, in place of the plain answer 200.
enum Fault: Hashable, Sendable {
    case answer(Answer)
    /// Accepted, and answered later than others.
    case late(Latency)
    /// Swallowed: never processed, never answered.
    case noAnswer
    /// RST_STREAM with INTERNAL_ERROR (RFC 9113, 7) in place of the answer.
    case resetStream
    /// RST_STREAM with REFUSED_STREAM: not processed.
    case refuseStream
    case goAway(GoAway)
    case cut(Cut)
    /// From now on the connection takes all bytes and sends nothing.
    case blackhole
    /// Accepted; from now on the connection sends no window updates, so that bodies stop after 65,535 bytes.
    case stall
    /// SETTINGS_MAX_CONCURRENT_STREAMS of the connection becomes this.
    case streams(UInt32)
    /// 64 bytes that are no frame, and nothing after them.
    case garbage
    /// Accepted; from now on the connection sends pieces of 1 to 7 bytes.
    case splitFrames
    /// Accepted; from now on the connection sends such a piece every 2 ms.
    case slowFrames
    /// Accepted; from now on answers to requests within 20 ms go out together, last first.
    case outOfOrder

    /// The outcome of a request that meets it, as the books record it. Apple would have shown accepted ones.
    var outcome: RequestOutcome {
        switch self {
        case .answer(let answer): answer.outcome
        case .late, .cut(.inside), .cut(.after), .stall, .streams, .splitFrames, .slowFrames, .outOfOrder:
            .accepted
        case .refuseStream, .goAway(.below), .goAway(.badEnvironment): .notProcessed
        case .goAway(let kind): kind.isAnswered ? .accepted : .unanswered
        case .noAnswer, .resetStream, .cut(.before), .cut(.reset), .blackhole, .garbage: .unanswered
        }
    }

    /// Whether it concerns the connection rather than one request, so that a timer can set it off.
    var isOfConnection: Bool {
        switch self {
        case .goAway(let kind): kind != .below
        case .cut(.before), .cut(.reset), .blackhole, .stall, .streams, .garbage, .splitFrames,
            .slowFrames, .outOfOrder:
            true
        case .answer, .late, .noAnswer, .resetStream, .refuseStream, .cut(.inside), .cut(.after): false
        }
    }
}

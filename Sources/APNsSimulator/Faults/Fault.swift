import PushRecords

/// A way to end a connection with GOAWAY.
enum GoAway: Hashable, Sendable {
    /// GOAWAY with the highest received stream id. Streams up to it are answered, then the connection closes. The debug
    /// data is `{"reason": …}` if a reason is given.
    case graceful(ReasonCode? = nil)
    /// As `graceful`, with plain text as debug data.
    case text
    /// Two GOAWAY frames: the first with last stream id 2^31-1, the second as `graceful`.
    case twice
    /// GOAWAY with a last stream id just below this request's: this and all later requests are not processed.
    case below
    /// GOAWAY with the highest received stream id, then an immediate close without outstanding answers. The debug data
    /// is `{"reason": …}` if a reason is given.
    case immediate(ReasonCode? = nil)
    /// GOAWAY with NO_ERROR, last stream id 0 and `{"reason":"BadCertificateEnvironment"}`, then a close.
    case badEnvironment

    var debugData: String {
        switch self {
        case .graceful(let reason?), .immediate(let reason?): "{\"reason\":\"\(reason.name)\"}"
        case .badEnvironment: "{\"reason\":\"\(ReasonCode.badCertificateEnvironment.name)\"}"
        case .text: "the server is going away"
        case .graceful, .twice, .below, .immediate: ""
        }
    }

    /// Whether the request that triggers the GOAWAY is answered first.
    var isAnswered: Bool {
        switch self {
        case .graceful, .text, .twice: true
        case .below, .immediate, .badEnvironment: false
        }
    }
}

extension ReasonCode {
    /// Apple's name of the reason, or empty if Apple has none.
    var name: String { text?.description ?? "" }
}

/// The point at which a connection is cut.
enum Cut: UInt8, CaseIterable, Sendable {
    /// Closed instead of the answer. The request is not processed.
    case before
    /// Closed in the middle of the answer's frames. The request is processed.
    case inside
    /// Closed right after the answer. The request is processed.
    case after
    /// TCP reset instead of the answer.
    case reset
}

/// A fault of a request or its connection, instead of a 200 answer.
enum Fault: Hashable, Sendable {
    case answer(Answer)
    /// Accepted and answered after an additional delay.
    case late(Latency)
    /// Never processed and never answered.
    case noAnswer
    /// RST_STREAM with INTERNAL_ERROR (RFC 9113, 7) instead of the answer.
    case resetStream
    /// RST_STREAM with REFUSED_STREAM: not processed.
    case refuseStream
    case goAway(GoAway)
    case cut(Cut)
    /// From now on the connection reads all bytes and sends nothing.
    case blackhole
    /// Accepted. From now on the connection sends no WINDOW_UPDATE, so that bodies stop after 65,535 bytes.
    case stall
    /// Changes SETTINGS_MAX_CONCURRENT_STREAMS of the connection.
    case streams(UInt32)
    /// 64 bytes that form no valid frame, and no output after them.
    case garbage
    /// Accepted. From now on the connection sends 1 to 7 bytes at a time.
    case splitFrames
    /// Accepted. From now on the connection sends 1 to 7 bytes every 2 ms.
    case slowFrames
    /// Accepted. From now on, answers to requests that arrive within 20 ms are sent together in reverse order.
    case outOfOrder

    /// The recorded outcome of a request with this fault. Apple would have delivered accepted ones.
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

    /// Whether the fault affects the whole connection rather than one request, so that a timer can trigger it.
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

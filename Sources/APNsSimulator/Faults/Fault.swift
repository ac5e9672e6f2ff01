package import PushRecords

/// How a connection is told to end.
package enum GoAway: Hashable, Sendable {
    /// GOAWAY with the highest stream received; everything up to it is answered, then the connection closes.
    case graceful
    /// The same, its debug data `{"reason": …}`.
    case reason(ReasonCode)
    /// The same, its debug data plain text.
    case text
    /// Two: the first with the largest stream id there is, the second as `graceful`.
    case twice
    /// GOAWAY with a last stream id just below this request's: it and all later ones are not processed.
    case below
    /// GOAWAY with the highest stream received, and the connection closes at once, answers outstanding.
    case immediate
    /// The same, its debug data `{"reason": …}`.
    case immediateReason(ReasonCode)
    /// GOAWAY, NO_ERROR, last stream id 0 and `{"reason":"BadCertificateEnvironment"}`; then it closes.
    case badEnvironment

    /// The text that stands in for a reason.
    static let plainText = "the server is going away"

    /// A request that meets it is answered first.
    var isAnswered: Bool {
        switch self {
        case .graceful, .reason, .text, .twice: true
        case .below, .immediate, .immediateReason, .badEnvironment: false
        }
    }
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
    /// Accepted, but answered so much later than others.
    case late(Latency)
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
    /// SETTINGS_MAX_CONCURRENT_STREAMS of the connection becomes this.
    case streams(UInt32)
    /// 64 bytes that are no frame, and nothing after them.
    case garbage
    /// Accepted, and everything the connection still has to say goes out in pieces of 1 to 7 bytes.
    case splitFrames
    /// Accepted, and everything the connection still has to say trickles: such a piece every 2 ms.
    case slowFrames
    /// Accepted; from now on the connection's answers to what comes within 20 ms go out together, last first.
    case outOfOrder

    /// Whether a request that gets it counts as accepted: Apple would have shown the notification.
    var isProcessed: Bool {
        switch self {
        case .answer(let answer): answer.status == 200
        case .late, .cut(.inside), .cut(.after), .stall, .oneStream, .streams, .splitFrames, .slowFrames, .outOfOrder:
            true
        case .goAway(let kind): kind.isAnswered
        case .noAnswer, .resetStream, .refuseStream, .cut(.before), .cut(.reset), .blackhole, .garbage: false
        }
    }

    /// Whether the client is told that a request that gets it was not processed.
    var isUnprocessed: Bool {
        switch self {
        case .refuseStream, .goAway(.below), .goAway(.badEnvironment): true
        case .answer, .late, .noAnswer, .resetStream, .goAway, .cut, .blackhole, .stall, .oneStream, .streams, .garbage,
            .splitFrames, .slowFrames, .outOfOrder:
            false
        }
    }

    /// Whether it concerns the connection rather than one request, so that a timer can set it off.
    var isOfConnection: Bool {
        switch self {
        case .goAway(let kind): kind != .below
        case .cut(.before), .cut(.reset), .blackhole, .stall, .oneStream, .streams, .garbage, .splitFrames,
            .slowFrames, .outOfOrder:
            true
        case .answer, .late, .noAnswer, .resetStream, .refuseStream, .cut(.inside), .cut(.after): false
        }
    }
}

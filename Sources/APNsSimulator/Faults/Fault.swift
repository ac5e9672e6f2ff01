import PushRecords

/// A way to end a connection with GOAWAY.
enum GoAway: Hashable, Sendable {
    /// GOAWAY with the highest received stream id. The simulator answers all streams up to this id, then closes the
    /// connection. The debug data is `{"reason": …}` if a reason is given.
    case graceful(ReasonCode? = nil)
    /// A GOAWAY like `graceful`, but with plain text as debug data.
    case text
    /// Two GOAWAY frames. The first has the last stream id 2^31-1, and the second is the GOAWAY of `graceful`.
    case twice
    /// GOAWAY with a last stream id just below the stream of the request that triggers it. The simulator processes
    /// neither that request nor later ones.
    case below
    /// GOAWAY with the highest received stream id, then an immediate close without the outstanding answers. The debug
    /// data is `{"reason": …}` if a reason is given.
    case immediate(ReasonCode? = nil)
    /// GOAWAY with NO_ERROR, last stream id 0 and debug data `{"reason":"BadCertificateEnvironment"}`, then a close.
    case badEnvironment

    var debugData: String {
        switch self {
        case .graceful(let reason?), .immediate(let reason?): "{\"reason\":\"\(reason.name)\"}"
        case .badEnvironment: "{\"reason\":\"\(ReasonCode.badCertificateEnvironment.name)\"}"
        case .text: "the server is going away"
        case .graceful, .twice, .below, .immediate: ""
        }
    }

    /// Whether the simulator answers the request that triggers the GOAWAY before it sends the GOAWAY.
    var isAnswered: Bool {
        switch self {
        case .graceful, .text, .twice: true
        case .below, .immediate, .badEnvironment: false
        }
    }
}

extension ReasonCode {
    /// Apple's name for the reason, or an empty string if Apple has none.
    var name: String { text?.description ?? "" }
}

/// The point at which the simulator cuts a connection, relative to the answer to a request.
enum Cut: UInt8, CaseIterable, Sendable {
    /// Closes the connection instead of answering. The request is not processed.
    case before
    /// Closes the connection in the middle of the answer's frames. The request is processed.
    case inside
    /// Closes the connection right after the answer. The request is processed.
    case after
    /// Resets the TCP connection instead of answering. The request is not processed.
    case reset
}

/// A fault that the simulator injects into a request or its connection.
enum Fault: Hashable, Sendable {
    case answer(Answer)
    /// The simulator accepts the request and answers after an additional delay.
    case late(Latency)
    /// The simulator neither processes nor answers the request.
    case noAnswer
    /// RST_STREAM with INTERNAL_ERROR (RFC 9113, 7) instead of the answer.
    case resetStream
    /// RST_STREAM with REFUSED_STREAM instead of the answer. The request is not processed.
    case refuseStream
    case goAway(GoAway)
    case cut(Cut)
    /// From now on the simulator reads all bytes of the connection, but sends nothing.
    case blackhole
    /// The request is accepted. From now on the simulator sends no WINDOW_UPDATE on the connection, so that bodies stop
    /// after 65,535 bytes.
    case stall
    /// The request is accepted. The simulator changes SETTINGS_MAX_CONCURRENT_STREAMS of the connection to this value.
    case streams(UInt32)
    /// The simulator sends 64 bytes that form no valid HTTP/2 frame, and nothing after them.
    case garbage
    /// The request is accepted. From now on the connection sends 1 to 7 bytes at a time.
    case splitFrames
    /// The request is accepted. From now on the connection sends 1 to 7 bytes every 2 ms.
    case slowFrames
    /// The request is accepted. From now on, requests that arrive in the same 20 ms are answered in reverse order.
    case outOfOrder

    /// The outcome that the simulator records for a request with this fault. It is `accepted` if Apple would have
    /// delivered the notification.
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

    /// Whether the fault affects the whole connection, so that it can be injected without a request.
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

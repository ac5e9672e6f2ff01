/// The parts of a notification's way through the worker that need neither Kafka nor a socket. The raw value is the word
/// of `apns-bench part` and of the guard's figures.
enum Part: String, CaseIterable {
    case parse, envelope, ledger, machine, fanout, results, encode, frames

    /// For people.
    var about: String {
        switch self {
        case .parse: "a record in payload form with headers, read and checked"
        case .envelope: "an envelope of one token, read and checked"
        case .ledger: "received, settled out of order, the commit map written and acknowledged"
        case .machine: "the Delivery machine from a record to its acknowledged commit"
        case .fanout: "the same for envelopes of 100 tokens, each a notification"
        case .results: "a result's JSON and headers"
        case .encode: "the transport, request headers, HTTP/2 client session and resend window, until the answer"
        case .frames: "the transport of the binary protocol, from a request to its acceptance by silence"
        }
    }

    /// Notifications of the guard's shorter run: some turns of each part's steady state.
    var guardCount: Int {
        switch self {
        case .parse, .envelope, .results: 1_024
        case .ledger, .machine: 2_048
        case .fanout: 3_200
        case .encode, .frames: 1_024
        }
    }

    /// Sets everything up; nothing went through yet.
    func start() throws -> any PartRun {
        switch self {
        case .parse: ParsePart(.payloadForm)
        case .envelope: ParsePart(.envelopeForm)
        case .ledger: LedgerPart()
        case .machine: MachinePart(tokensPerRecord: 1)
        case .fanout: MachinePart(tokensPerRecord: 100)
        case .results: ResultsPart()
        case .encode: try EncodePart()
        case .frames: try FramesPart()
        }
    }
}

/// A part at work, one batch a turn, as large as the worker's are. One thread.
protocol PartRun: AnyObject {
    /// Notifications that went all the way through.
    var count: Int { get }
    /// Plays the other side, and makes ready what the next turn takes: not counted.
    func prepare() throws
    /// What the worker does: counted.
    func turn() throws
}

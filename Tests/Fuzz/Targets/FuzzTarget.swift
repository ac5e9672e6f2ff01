import PushRecords

/// An entry point through which bytes from outside come in. Each may be given any bytes, and never traps, reads beyond
/// them, or says what is not so: `require` ends the process where it does.
package enum FuzzTarget: String, CaseIterable, Sendable {
    /// A record of a request topic, as `Pieces`: flags, key, value, names and values of headers.
    case request
    /// The value of an envelope.
    case envelope
    /// A record of a retry topic, as `request`.
    case retry
    /// Commit metadata: the offset it was committed with, then its bytes before and after base64url.
    case commitMap = "commit-map"
    /// A commit map is made of the bytes, written and read back.
    case commitMapWriter = "commit-map-writer"
    case base64URL = "base64url"
    case result
    case deadToken = "dead-token"
    /// As `request`.
    case deadLetter = "dead-letter"
    /// What APNs sends: a byte for the size of the pieces, then its frames.
    case http2Client = "http2-client"
    /// What a client sends to the simulator, likewise.
    case http2Server = "http2-server"
    case errorBody = "error-body"
    case proxy
    case yaml
    case configuration
    /// A duration, then a size, each a line, as values of a configuration.
    case quantity
    /// Eight bytes of a time.
    case timestamp
    case json
    /// `DeliveryMachine`: what Kafka, APNs and the clock do, a byte each and what follows from it.
    case machine

    package func run(_ bytes: UnsafeRawBufferPointer) {
        switch self {
        case .request: fuzzRecord(bytes, role: .request)
        case .envelope: fuzzEnvelope(bytes)
        case .retry: fuzzRecord(bytes, role: .retry)
        case .commitMap: fuzzCommitMap(bytes)
        case .commitMapWriter: fuzzCommitMapWriter(bytes)
        case .base64URL: fuzzBase64URL(bytes)
        case .result: fuzzResult(bytes)
        case .deadToken: fuzzDeadToken(bytes)
        case .deadLetter: fuzzDeadLetter(bytes)
        case .http2Client: fuzzHTTP2Client(bytes)
        case .http2Server: fuzzHTTP2Server(bytes)
        case .errorBody: fuzzErrorBody(bytes)
        case .proxy: fuzzProxy(bytes)
        case .yaml: fuzzYAML(bytes)
        case .configuration: fuzzConfiguration(bytes)
        case .quantity: fuzzQuantity(bytes)
        case .timestamp: fuzzTimestamp(bytes)
        case .json: fuzzJSON(bytes)
        case .machine: fuzzMachine(bytes)
        }
    }
}

/// Ends the process with the rule that does not hold, in every build.
func require(_ holds: Bool, _ rule: @autoclosure () -> String) {
    if !holds { fatalError(rule()) }
}

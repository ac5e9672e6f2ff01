/// Why no notification can be read from a record at all.
package enum DeadLetterReason: UInt8, CaseIterable, Sendable {
    /// The value is null.
    case tombstone
    /// The value is not JSON (RFC 8259), or nested deeper than `JSONScanner.depthLimit`, which its detail says.
    case notJSON
    /// Payload form without a device token or channel id; an envelope whose list is empty.
    case noDeviceToken
    /// An envelope whose shape leaves no token to be read.
    case badEnvelope
    /// More than `RequestParser.tokenLimit`.
    case tooManyTokens
    /// A record of a retry topic whose `push-retry-*` headers are missing or cannot be read.
    case badRetryHeaders
    /// The worker died at it twice. Nothing of it was looked at.
    case workerCrashed
    /// Its headers cannot be read, so that nobody knows what it asks for. They are not in the dead letter.
    case unreadableHeaders

    /// Value of `push-dlq-reason`.
    package var text: StaticString {
        switch self {
        case .tombstone: "tombstone"
        case .notJSON: "not-json"
        case .noDeviceToken: "no-device-token"
        case .badEnvelope: "bad-envelope"
        case .tooManyTokens: "too-many-tokens"
        case .badRetryHeaders: "bad-retry-headers"
        case .workerCrashed: "worker-crashed"
        case .unreadableHeaders: "unreadable-headers"
        }
    }

    /// Why a record was not looked at; of the others whoever looked at it tells what was found.
    var unreadDetail: StaticString {
        switch self {
        case .workerCrashed: "the worker died at this record twice"
        case .unreadableHeaders: "its headers cannot be read"
        case .tombstone, .notJSON, .noDeviceToken, .badEnvelope, .tooManyTokens, .badRetryHeaders: ""
        }
    }
}

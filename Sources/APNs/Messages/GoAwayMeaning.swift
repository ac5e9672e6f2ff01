internal import PushRecords
internal import PushTransport

/// What the reason that a GOAWAY gives says about the connections after it.
enum GoAwayMeaning: Sendable, Equatable {
    /// The next connection will be refused, too: its reason is about the credential.
    case credentialRefused
    /// APNs closes this connection in its own interest (`Shutdown`, `IdleTimeout`); nothing is wrong with the next one.
    case leaves
    /// No reason, or none known: the error code decides.
    case unsaid
    /// Something was wrong with what we sent.
    case other

    init(_ reason: ReasonCode) {
        switch reason {
        case .shutdown, .idleTimeout: self = .leaves
        case .none, .other: self = .unsaid
        default:
            self = reason.subject == .credential || reason == .topicMismatch ? .credentialRefused : .other
        }
    }
}

internal import Delivery
internal import PushRecords

/// What the reason that a GOAWAY gives says about the connections after it.
enum GoAwayMeaning: Sendable, Equatable {
    /// The next connection will be refused, too: the reasons that `VerdictTable` lays on the credential.
    case credentialRefused
    /// APNs closes this connection in its own interest (`Shutdown`, `IdleTimeout`); nothing is wrong with the next one.
    case leaves
    /// No reason, or none known: the error code decides.
    case unsaid
    /// Something was wrong with what we sent.
    case other

    private static let table = VerdictTable()

    init(_ reason: ReasonCode) {
        switch reason {
        case .shutdown, .idleTimeout: self = .leaves
        case .none, .other: self = .unsaid
        default:
            self =
                Self.table.row(reason: reason, text: nil, status: 0).verdict == .credentialFault
                ? .credentialRefused : .other
        }
    }
}

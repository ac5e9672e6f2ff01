import PushRecords

/// An APNs answer to a request: a status, and a reason unless the status is 200.
struct Answer: Hashable, Sendable {
    /// The content of an answer's body. An answer with status 200 has no body.
    enum Body: UInt8, Sendable {
        /// The body `{"reason": …}` with Apple's reason.
        case reason
        /// The body `{"reason": …}` with an unknown reason, `ReasonOfTomorrow`.
        case unknownReason
        /// An answer without a body.
        case missing
    }

    var status: UInt16
    var reason: ReasonCode
    var body = Body.reason

    var outcome: RequestOutcome { status == 200 ? .accepted : .refused(reason) }

    static let accepted = Answer(status: 200, reason: .none, body: .missing)
}

extension Answer {
    /// Creates the answer that Apple's pages list for a reason.
    init(_ reason: ReasonCode) {
        self.init(status: Self.status(of: reason), reason: reason)
    }

    /// Returns the status that Apple's pages list for a reason.
    static func status(of reason: ReasonCode) -> UInt16 {
        switch reason {
        case .none: 200
        case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .forbidden, .invalidProviderToken,
            .missingProviderToken, .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken,
            .topicMismatch:
            403
        case .badPath: 404
        case .methodNotAllowed: 405
        case .expiredToken, .unregistered: 410
        case .payloadTooLarge: 413
        case .tooManyProviderTokenUpdates, .tooManyRequests: 429
        case .internalServerError: 500
        case .serviceUnavailable, .shutdown, .serviceUnavailableSpaced: 503
        default: 400
        }
    }
}

/// Returns the `timestamp` of a 410 answer: the time at which the token became invalid, in milliseconds since the
/// epoch.
///
/// The timestamp is 1600000000000 plus the number in the last nine hex digits of the token (all digits of a shorter
/// token), so that tests can verify it. It is between September 2020 and November 2022.
func unregisteredAtMs(token: UnsafeRawBufferPointer) -> Int64 {
    let number = token.suffix(5).reduce(0) { $0 << 8 | Int64($1) }
    return 1_600_000_000_000 + (number & 0xF_FFFF_FFFF)
}

/// Returns the value of a hex digit in either case.
@inline(__always) func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x61...0x66: byte - 0x61 + 10
    case 0x41...0x46: byte - 0x41 + 10
    default: nil
    }
}

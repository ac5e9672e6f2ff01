internal import HTTP2
internal import JSON
package import PushRecords
internal import PushTransport

/// What the body of an error answer (or a GOAWAY's debug data) says: `{"reason": "…", "timestamp": …}`.
///
/// Parsed over lent bytes; only a reason not known by name costs a string.
package struct ErrorBody: Equatable, Sendable {
    package var reason: ReasonCode = .none
    /// With `reason == .other`: the word as it came, at most 200 bytes.
    package var text: String?
    /// Milliseconds since the epoch (`RecordTime`), without a fraction, or 0 if there is none that can be one.
    package var timestampMs: Int64 = 0
    package var isTimestampUnusable = false

    /// Skips unknown members. A body that is not one JSON object says nothing, so the status decides.
    package init(parsing body: UnsafeRawBufferPointer) {
        guard var reader = try? JSONReader(body), (try? reader.enterObject()) != nil else { return }
        while let name = reader.nextMember() {
            if name.equals("reason"), reader.kind == .string, let value = try? reader.text() {
                setReason(value.bytes)
            } else if name.equals("timestamp"), reader.kind == .number {
                timestampMs = RecordTime.checked(Int64(exactly: ((try? reader.double()) ?? 0).rounded(.down)) ?? 0)
                isTimestampUnusable = timestampMs == 0
            } else {
                reader.skip()
            }
        }
    }

    /// Takes the bytes as they came, because no reason that APNs has needs an escape.
    private mutating func setReason(_ value: UnsafeRawBufferPointer) {
        guard !value.isEmpty else { return }
        if let code = ReasonCode(text: value) {
            reason = code
            text = nil
        } else {
            reason = .other
            text = String(decoding: value.prefix(200), as: UTF8.self)
        }
    }
}

/// The consequence of a GOAWAY's reason for the connections that follow.
extension ReasonCode {
    /// The next connection will be refused, too: the reason is about the credential.
    var refusesConnections: Bool { subject == .credential || self == .topicMismatch }

    /// Whether APNs closes the connection in its own interest, and nothing is wrong with the next one.
    func isOrderlyEnd(_ code: ErrorCode) -> Bool {
        switch self {
        case .shutdown, .idleTimeout: true
        case .none, .other: code == .noError
        default: false
        }
    }
}

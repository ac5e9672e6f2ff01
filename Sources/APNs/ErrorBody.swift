internal import HTTP2
internal import JSON
package import PushRecords
internal import PushTransport

/// The body of an error answer, or the debug data of a GOAWAY: `{"reason": "…", "timestamp": …}`.
///
/// The initializer parses borrowed bytes. It allocates a string only for a reason that `ReasonCode` lacks.
package struct ErrorBody: Equatable, Sendable {
    package var reason: ReasonCode = .none
    /// The reason as received if `reason` is `.other`, at most 200 bytes.
    package var text: String?
    /// Milliseconds since the epoch (`RecordTime`), without a fraction, or 0 if there is no valid timestamp.
    package var timestampMs: Int64 = 0
    package var isTimestampUnusable = false

    /// A number below this one is a timestamp in seconds. As milliseconds it would be in 1973 or earlier.
    private static let leastMs: Int64 = 100_000_000_000

    /// Parses a body, and skips its unknown members. If the body is not a JSON object, `reason` and `text` are empty,
    /// and the status determines the verdict. The timestamp of a damaged or truncated object is unusable.
    package init(parsing body: UnsafeRawBufferPointer) {
        guard var reader = try? JSONReader(body) else {
            isTimestampUnusable = body.first == UInt8(ascii: "{")
            return
        }
        guard (try? reader.enterObject()) != nil else { return }
        while let name = reader.nextMember() {
            if name.equals("reason"), reader.kind == .string, let value = try? reader.text() {
                setReason(value.bytes)
            } else if name.equals("timestamp"), reader.kind == .number {
                let time = Int64(exactly: ((try? reader.double()) ?? 0).rounded(.down)) ?? 0
                timestampMs = RecordTime.checked((0..<Self.leastMs).contains(time) ? time * 1_000 : time)
                isTimestampUnusable = timestampMs == 0
            } else {
                if name.equals("timestamp") { isTimestampUnusable = reader.kind != .null }
                reader.skip()
            }
        }
    }

    /// Stores the bytes without unescaping them, because no known reason of APNs contains an escape.
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

/// The effect of a GOAWAY's reason on the next connections.
extension ReasonCode {
    /// Whether the next connection would probably be refused too, because the reason concerns the credential.
    var refusesConnections: Bool { subject == .credential || self == .topicMismatch }

    /// Returns whether APNs closes the connection without a fault of the client, so that the next one should work.
    func isOrderlyEnd(_ code: ErrorCode) -> Bool {
        switch self {
        case .shutdown, .idleTimeout: true
        case .none, .other: code == .noError
        default: false
        }
    }
}

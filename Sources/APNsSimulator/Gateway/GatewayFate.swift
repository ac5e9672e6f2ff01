/// What becomes of one notification at the gateway.
enum GatewayFate: Hashable, Sendable {
    case accepted
    case refused(GatewayStatus)
    /// Accepted as the last one of its connection: status 10 with its identifier.
    case lastBeforeShutdown
    /// In its place the connection closes without a word.
    case closed
    /// Accepted; then the connection closes without a word.
    case acceptedThenClosed
    /// In its place the connection is reset (TCP).
    case reset
}

extension TokenTable {
    /// What a device token, by its bytes, asks of the gateway, and for how many of its notifications (0: all); `nil`:
    /// nothing.
    ///
    /// The digits are those of HTTP/2, where the gateway has an answer of that kind; what it lacks is accepted. Beside
    /// them `fa170NNN` asks for status NNN in decimal, and `fa170000` for a connection that closes.
    @inline(__always)
    static func gatewayEntry(for token: UnsafeRawBufferPointer) -> (fate: GatewayFate, times: UInt8)? {
        guard token.count >= 4, token.number16(at: 0) == 0xFA17, let fate = fate(code: token.number16(at: 2)) else {
            return nil
        }
        return (fate, token.count > 4 ? token[4] >> 4 : 0)
    }

    @inline(never)
    private static func fate(code: UInt16) -> GatewayFate? {
        if code == 0 { return .closed }
        if code >> 12 == 0 {
            return decimal(code).flatMap { UInt8(exactly: $0) }.map { fate(GatewayStatus(rawValue: $0)) }
        }
        switch fault(code: code) {
        case .answer(let answer): return GatewayStatus(answer.reason).map(fate)
        case .cut(.before): return .closed
        case .cut(.after): return .acceptedThenClosed
        case .cut(.reset): return .reset
        default: return nil
        }
    }

    private static func fate(_ status: GatewayStatus) -> GatewayFate {
        status == .shutdown ? .lastBeforeShutdown : .refused(status)
    }

    /// The table's lines about the gateway, for `simulate --help`.
    static let gatewayText = """
        On the gateway the same tokens ask for the status of that kind: fa174001 for 8, fa174130 for 7, fa175000
        for 1; fa17f020, fa17f022 and fa17f023 close it. Tokens that it has no status for, those of 410 among them,
        are accepted, as Apple's did. Any status by its number, and more:

          fa170NNN  the gateway answers status NNN, 001 to 255 (fa170008: invalid token)
          fa170010  the gateway accepts this one, answers 10, shutdown, and closes
          fa170000  the gateway closes without a word, and does not process this one
          000…      a token of zeros is answered 8

        """
}

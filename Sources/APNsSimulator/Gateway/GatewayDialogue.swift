import PushRecords

/// The state shared by the gateway's connections. Not thread-safe.
final class GatewayService {
    let books: Books
    /// The faults of new connections.
    var faults: GatewayFaults
    let payloadLimit: Int

    init(books: Books, faults: GatewayFaults, payloadLimit: Int) {
        self.books = books
        self.faults = faults
        self.payloadLimit = payloadLimit
    }
}

/// The server side of one gateway connection, which receives bytes and sends at most one answer.
///
/// The dialogue uses neither socket nor clock: the connection passes the received bytes to it, and closes in the way
/// that `ending` names. The dialogue discards frames after the one that caused the ending. Not thread-safe.
final class GatewayDialogue {
    enum Ending: Hashable {
        /// Sends `answer` (the error answer with this status), then closes.
        case status(GatewayStatus)
        /// Closes without an answer.
        case close
        /// Resets the TCP connection.
        case reset
    }

    /// The size of a device token in bytes, which did not change while Apple's gateway existed.
    static let tokenSize = 32

    private let service: GatewayService
    private let faults: GatewayFaults
    private var reader = GatewayReader()
    private(set) var ending: Ending?
    private var acceptedCount = 0
    /// The identifier in the error answer: the identifier of the last notification before the end, whether accepted or
    /// refused. It is 0 without a notification, after a frame that is unknown or too large, or if the last notification
    /// used command 0, which has no identifiers.
    private var identifier: UInt32 = 0

    init(service: GatewayService) {
        self.service = service
        faults = service.faults
    }

    /// The error answer, if the dialogue ended with one: `08`, the status, the notification's identifier (big-endian).
    var answer: [UInt8]? {
        guard case .status(let status)? = ending else { return nil }
        return [8, status.rawValue] + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> UInt32(24 - $0 * 8)) }
    }

    func receive(_ bytes: UnsafeRawBufferPointer) {
        reader.read(bytes) { take($0) }
        guard reader.isLost, ending == nil else { return }
        identifier = 0
        ending = .status(.protocolError)
        service.books.write { $0.note(.refused(.other), id: .none, token: .nothing, index: nil) }
    }

    /// Ends the dialogue as Apple's gateway did before maintenance: with status 10, if it has accepted a notification.
    func shutDown() {
        if ending == nil { ending = acceptedCount == 0 ? .close : .status(.shutdown) }
    }

    private func take(_ frame: GatewayFrame) {
        // The simulator records only tokens of 1 to 100 bytes.
        let token = frame.token.count <= 100 ? frame.token : .nothing
        let refusal = ending == nil ? refusal(of: frame) : nil
        var fate = GatewayFate(outcome: .notProcessed)
        service.books.write { state in
            let index = state.book.arrive(token: token).index
            if ending == nil {
                fate = refusal.map { GatewayFate($0) } ?? requestedFate(by: token, index: index, &state.book)
            }
            state.note(fate.outcome, id: .none, token: token, index: index)
        }
        guard ending == nil else { return }
        identifier = frame.identifier
        ending = fate.ending
        if fate.outcome == .accepted {
            acceptedCount += 1
            if acceptedCount == faults.closeAfter { ending = .close }
            if acceptedCount == faults.shutdownAfter { shutDown() }
        }
        if ending == .close || ending == .reset { service.books.write { $0.totals.cuts += 1 } }
    }

    private func refusal(of frame: GatewayFrame) -> GatewayStatus? {
        if frame.isMalformed { return .protocolError }
        if frame.token.isEmpty { return .missingToken }
        if frame.token.count != Self.tokenSize { return .tokenSize }
        // Clients send this invalid token, all zero bytes, to provoke an answer.
        if frame.token.allSatisfy({ $0 == 0 }) { return .invalidToken }
        if frame.payload.isEmpty { return .missingPayload }
        if frame.payload.count > service.payloadLimit { return .payloadSize }
        // Apple documents no status for a payload that is not a dictionary, so the simulator answers as for a missing
        // payload.
        return PayloadSyntax.isObject(frame.payload) ? nil : .missingPayload
    }

    /// Returns the outcome and the ending that the token requests, or else the outcome `accepted`. Frames that the
    /// gateway discarded do not count towards the token's limit of requests.
    @inline(__always)
    private func requestedFate(
        by token: UnsafeRawBufferPointer, index: Int?, _ book: inout NotificationBook
    ) -> GatewayFate {
        guard let (code, times) = TokenTable.digits(of: token), let fate = TokenTable.gatewayFate(code: code),
            times == 0 || book.received(id: .none, token: index) < UInt32(times)
        else { return GatewayFate(outcome: .accepted) }
        return fate
    }
}

/// The outcome of a notification at the gateway, and the way in which the connection then ends, if it ends.
struct GatewayFate {
    var outcome: RequestOutcome
    /// The way in which the connection ends after the notification, or `nil` if the connection continues.
    var ending: GatewayDialogue.Ending?
}

extension GatewayFate {
    init(_ status: GatewayStatus) {
        // Status 10 names the last accepted notification, so this notification counts as accepted.
        self.init(outcome: status == .shutdown ? .accepted : .refused(status.reason), ending: .status(status))
    }
}

extension TokenTable {
    /// Returns the outcome and the ending that the four digits after `fa17` in a token request, or `nil` for other
    /// digits.
    ///
    /// The digits have the same meaning as over HTTP/2 if the gateway has a corresponding answer. In addition, `0NNN`
    /// requests status NNN (decimal), and `0000` closes the connection without an answer.
    @inline(never)
    static func gatewayFate(code: UInt16) -> GatewayFate? {
        if code == 0 { return GatewayFate(outcome: .unanswered, ending: .close) }
        if code >> 12 == 0 {
            return decimal(code).flatMap { UInt8(exactly: $0) }.map { GatewayFate(GatewayStatus(rawValue: $0)) }
        }
        switch fault(code: code) {
        case .answer(let answer): return GatewayStatus(answer.reason).map { GatewayFate($0) }
        case .cut(.before): return GatewayFate(outcome: .unanswered, ending: .close)
        case .cut(.after): return GatewayFate(outcome: .accepted, ending: .close)
        case .cut(.reset): return GatewayFate(outcome: .unanswered, ending: .reset)
        default: return nil
        }
    }

    /// The gateway section of `simulate --help`.
    static let gatewayText = """
        On the binary gateway, the same tokens request the corresponding status: fa174001 is 8, fa174130 is 7,
        fa175000 is 1; fa17f020, fa17f022 and fa17f023 close the connection. Tokens without a corresponding status,
        such as those that request a 410, are accepted, as Apple's gateway accepted them. In addition:

          fa170NNN  the gateway answers status NNN, 001 to 255 (fa170008: invalid token)
          fa170010  the gateway accepts the notification, answers 10 (shutdown) and closes
          fa170000  the gateway closes without an answer and without processing the notification
          000…      a token of zeros is answered with 8

        """
}

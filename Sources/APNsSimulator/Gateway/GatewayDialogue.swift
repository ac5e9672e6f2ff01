import PushRecords

/// The state that the gateway's connections share. One thread.
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

/// The gateway's side of one connection: bytes in, and at most one answer out.
///
/// It has no socket and no clock: its owner passes the bytes and performs the `ending`. Frames after the one that ended
/// it are discarded. One thread.
final class GatewayDialogue {
    enum Ending: Hashable {
        /// An error answer, `answer`.
        case status(GatewayStatus)
        /// Without an answer.
        case close
        /// TCP reset.
        case reset
    }

    /// Device tokens were 32 bytes as long as Apple's gateway was there.
    static let tokenSize = 32

    private let service: GatewayService
    private let faults: GatewayFaults
    private var reader = GatewayReader()
    private(set) var ending: Ending?
    private var acceptedCount = 0
    /// The identifier that an answer names: that of the last notification before the end, accepted or not. 0 if there
    /// was none, or if it came in the format of command 0, which has no identifiers.
    private var identifier: UInt32 = 0

    init(service: GatewayService) {
        self.service = service
        faults = service.faults
    }

    /// The error answer, if it ended with one: `08`, the status, the notification's identifier (big-endian).
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

    /// Ends it as a server that shuts down.
    func shutDown() {
        if ending == nil { ending = acceptedCount == 0 ? .close : .status(.shutdown) }
    }

    private func take(_ frame: GatewayFrame) {
        // The books know tokens of 1 to 100 bytes.
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
        // Clients send this invalid token to make the gateway answer.
        if frame.token.allSatisfy({ $0 == 0 }) { return .invalidToken }
        if frame.payload.isEmpty { return .missingPayload }
        if frame.payload.count > service.payloadLimit { return .payloadSize }
        // Apple documents no status for a payload that is not a dictionary.
        return PayloadSyntax.isObject(frame.payload) ? nil : .missingPayload
    }

    /// The fate that the token requests. Discarded frames do not count for its number of times.
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

/// The fate of a notification at the gateway.
struct GatewayFate {
    var outcome: RequestOutcome
    /// How its connection ends after it, if it does.
    var ending: GatewayDialogue.Ending?
}

extension GatewayFate {
    init(_ status: GatewayStatus) {
        // Status 10 names the last notification that was accepted.
        self.init(outcome: status == .shutdown ? .accepted : .refused(status.reason), ending: .status(status))
    }
}

extension TokenTable {
    /// The fate that a token's four digits request at the gateway.
    ///
    /// The digits are those of HTTP/2 where the gateway has such an answer; others are accepted. In addition `0NNN`
    /// requests status NNN in decimal, and `0000` that the connection closes.
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

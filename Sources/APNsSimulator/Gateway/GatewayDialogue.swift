import PushRecords

/// The state that the gateway's connections share. One thread.
final class GatewayService {
    let books: Books
    /// The faults of new connections.
    var manner: GatewayManner
    let payloadLimit: Int

    init(books: Books, manner: GatewayManner = GatewayManner(), payloadLimit: Int = 2048) {
        self.books = books
        self.manner = manner
        self.payloadLimit = payloadLimit
    }
}

/// The gateway's side of one connection: bytes in, and at most one answer out.
///
/// It has no socket and no clock: its owner passes the bytes and performs the `ending`. Frames after the one that ended
/// it are discarded. One thread.
final class GatewayDialogue {
    enum Ending: Hashable {
        case answer(GatewayErrorFrame)
        /// Without an answer.
        case close
        /// TCP reset.
        case reset
    }

    /// Device tokens were 32 bytes as long as Apple's gateway was there.
    static let tokenSize = 32

    private let service: GatewayService
    private let manner: GatewayManner
    private var reader = GatewayReader()
    private(set) var ending: Ending?
    private(set) var acceptedCount = 0
    /// The identifier of the last notification that was accepted.
    private(set) var lastAccepted: UInt32 = 0

    init(service: GatewayService) {
        self.service = service
        manner = service.manner
    }

    func receive(_ bytes: UnsafeRawBufferPointer) {
        reader.read(bytes) { take($0) }
        guard reader.isLost, ending == nil else { return }
        ending = .answer(GatewayErrorFrame(status: .protocolError, identifier: 0))
        service.books.write { $0.note(.refused(.other), id: .none, token: .nothing, index: nil) }
    }

    /// Ends it as a server that shuts down.
    func shutDown() {
        if ending != nil { return }
        ending = acceptedCount == 0 ? .close : .answer(GatewayErrorFrame(status: .shutdown, identifier: lastAccepted))
    }

    private func take(_ frame: GatewayFrame) {
        // The books know tokens of 1 to 100 bytes.
        let token = frame.token.count <= 100 ? frame.token : UnsafeRawBufferPointer(start: nil, count: 0)
        let refusal = ending == nil ? refusal(of: frame) : nil
        var fate = GatewayFate.accepted
        service.books.write { state in
            let index = token.isEmpty ? nil : state.book.arrive(token: token).index
            var outcome = RequestOutcome.notProcessed
            if ending == nil {
                fate = refusal.map { .refused($0) } ?? requestedFate(by: token, index: index, &state.book)
                outcome = Self.outcome(of: fate)
            }
            state.note(outcome, id: .none, token: token, index: index)
        }
        if ending == nil { follow(fate, of: frame) }
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
        guard let entry = TokenTable.gatewayEntry(for: token) else { return .accepted }
        if entry.times == 0 { return entry.fate }
        return book.received(id: .none, token: index) < UInt32(entry.times) ? entry.fate : .accepted
    }

    private static func outcome(of fate: GatewayFate) -> RequestOutcome {
        switch fate {
        case .accepted, .lastBeforeShutdown, .acceptedThenClosed: .accepted
        case .refused(let status): .refused(status.reason)
        case .closed, .reset: .unanswered
        }
    }

    private func follow(_ fate: GatewayFate, of frame: GatewayFrame) {
        switch fate {
        case .refused(let status):
            ending = .answer(GatewayErrorFrame(status: status, identifier: frame.identifier))
            return
        case .closed: return cut(.close)
        case .reset: return cut(.reset)
        case .accepted, .acceptedThenClosed, .lastBeforeShutdown: break
        }
        acceptedCount += 1
        lastAccepted = frame.identifier
        if fate == .acceptedThenClosed || acceptedCount == manner.closeAfter { return cut(.close) }
        if fate == .lastBeforeShutdown || acceptedCount == manner.shutdownAfter { shutDown() }
    }

    private func cut(_ ending: Ending) {
        self.ending = ending
        service.books.write { $0.totals.cuts += 1 }
    }
}

/// The fate of a notification at the gateway.
enum GatewayFate: Hashable, Sendable {
    case accepted
    case refused(GatewayStatus)
    /// Accepted as the last one of its connection: status 10 with its identifier.
    case lastBeforeShutdown
    /// In its place the connection closes without an answer.
    case closed
    /// Accepted; then the connection closes without an answer.
    case acceptedThenClosed
    /// In its place the connection is reset (TCP).
    case reset
}

extension TokenTable {
    /// The fate that a device token (its bytes) requests at the gateway, and the number of its notifications (0: all).
    ///
    /// The digits are those of HTTP/2 where the gateway has such an answer; others are accepted. In addition `fa170NNN`
    /// requests status NNN in decimal, and `fa170000` that the connection closes.
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

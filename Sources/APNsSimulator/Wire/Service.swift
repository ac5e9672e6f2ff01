internal import Bytes
import EventLoop
import JSON
import PushRecords

/// The state that the connections of one loop share: rules, faults, books. One thread.
final class Service {
    /// The purpose of its connections.
    enum Role: Sendable {
        case notifications
        /// Creates, reads, lists and deletes channels.
        case management
    }

    let role: Role
    let books: Books
    let check: RequestCheck
    var options: SimulatorOptions
    var reader: ProviderTokenReader
    var replies: ReplyWriter
    var schedule: FaultSchedule
    var due = DueQueue()
    private var random: SplitMix64
    private var channelDigits = ByteWriter()
    private let tokenBytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 100, alignment: 16)

    init(
        options: SimulatorOptions, keys: [ProviderKey], books: Books, channels: ChannelBook = ChannelBook(),
        nowNs: Int64, role: Role = .notifications
    ) {
        self.books = books
        self.role = role
        check = RequestCheck(
            bundleIDs: options.bundleIDs.map { Array($0.utf8) }, checksTopicSuffixes: options.checksTopicSuffixes,
            withoutBroadcast: options.withoutBroadcast.map { Array($0.utf8) }, channels: channels)
        self.options = options
        reader = ProviderTokenReader(keys: keys, environment: options.environment)
        replies = ReplyWriter(hasUniqueID: options.environment == .development, seed: options.seed)
        schedule = FaultSchedule(rules: options.faults, nowNs: nowNs)
        random = SplitMix64(seed: options.seed)
    }

    deinit { tokenBytes.deallocate() }

    /// A channel id's bytes in hex, as books and fault table know it, or empty if it is none. Lent until the next call.
    func channelHex(_ id: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        channelDigits.removeAll()
        channelBytes(id)?.withUnsafeBytes { channelDigits.append(hex: $0) }
        return channelDigits.bytes
    }

    /// The decision on one request.
    struct Decision {
        var reply: Reply
        /// If `nil`, the reply is sent after `delayNs`.
        var fault: Fault?
        var delayNs: Int64
    }

    /// Decides on a complete request whose refusal, if any, is known, and records it in the books.
    @inline(__always)
    func decide(_ request: CheckedRequest, refusal: ReasonCode) -> Decision {
        var id = request.id
        let isOwnID = id == .none
        if isOwnID { id = replies.newID() }
        let token = decode(request.token)
        var answer = refusal == .none ? Answer.accepted : Answer(refusal)
        var fault: Fault?
        books.write { state in
            let arrival = token.isEmpty ? (index: nil, earlier: 0) : state.book.arrive(token: token)
            if refusal == .none {
                fault = asked(by: request.token, earlier: arrival.earlier) ?? schedule.forRequest()
                if case .answer(let wanted)? = fault {
                    answer = wanted
                    fault = nil
                }
            }
            state.note(fault?.outcome ?? answer.outcome, id: id, token: token, index: arrival.index)
        }
        var delayNs = options.latency.nextNs(using: &random)
        if case .late(let more)? = fault {
            delayNs += more.nextNs(using: &random)
            fault = nil
        }
        let reply = Reply(
            status: answer.status, reason: answer.reason, body: answer.body, id: id, isOwnID: isOwnID,
            timestampMs: answer.status == 410 ? unregisteredAtMs(token: request.token) : 0,
            isBroadcast: request.isBroadcast)
        return Decision(reply: reply, fault: fault, delayNs: delayNs)
    }

    @inline(__always)
    private func asked(by token: UnsafeRawBufferPointer, earlier: UInt32) -> Fault? {
        guard let entry = TokenTable.entry(for: token) else { return nil }
        return entry.times == 0 || earlier < UInt32(entry.times) ? entry.fault : nil
    }

    /// The bytes of a token of valid hex digits; lent until the next call.
    @inline(__always)
    private func decode(_ token: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let count = token.count / 2
        for index in 0..<count {
            tokenBytes[index] = (hexDigit(token[index * 2]) ?? 0) << 4 | (hexDigit(token[index * 2 + 1]) ?? 0)
        }
        return UnsafeRawBufferPointer(rebasing: tokenBytes[..<count])
    }
}

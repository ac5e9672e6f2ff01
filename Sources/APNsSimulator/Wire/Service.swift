internal import Bytes
import EventLoop
import PushRecords

/// What the connections of one loop share: the rules, the faults, the books. One thread.
final class Service {
    /// What its connections are for.
    enum Role: Sendable {
        case notifications
        /// Channels are made, read, listed and deleted.
        case management
    }

    let role: Role
    let books: Books
    let check: RequestCheck
    let lifetimes: TokenLifetimes
    let wantsProviderToken: Bool
    /// Streams before and after a valid provider token was seen.
    let firstStreams: UInt32
    var streams: UInt32
    var reader: ProviderTokenReader
    var replies: ReplyWriter
    var latency: Latency
    var schedule: FaultSchedule
    var due = DueQueue()
    private var random: SplitMix64
    private let channelDigits = UnsafeMutableRawBufferPointer.allocate(byteCount: 200, alignment: 16)
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
        lifetimes = options.lifetimes
        wantsProviderToken = options.wantsProviderToken
        firstStreams = options.firstStreams
        streams = options.streams
        reader = ProviderTokenReader(keys: keys, environment: options.environment)
        reader.onForm = { form in
            books.write { state in
                switch form {
                case .derSignature: state.totals.derSignatures += 1
                case .padding: state.totals.paddedTokens += 1
                }
            }
        }
        replies = ReplyWriter(hasUniqueID: options.environment == .development, seed: options.seed)
        latency = options.latency
        schedule = FaultSchedule(rules: options.faults, nowNs: nowNs)
        random = SplitMix64(seed: options.seed)
    }

    deinit {
        tokenBytes.deallocate()
        channelDigits.deallocate()
    }

    /// A channel id's bytes in hex, which is how books and fault table know it; empty when it is none. Lent until the
    /// next call.
    func channelHex(_ id: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        guard let bytes = channelBytes(id) else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        var writer = LineWriter(channelDigits)
        bytes.withUnsafeBytes { writer.hex($0) }
        return UnsafeRawBufferPointer(rebasing: channelDigits[..<writer.used])
    }

    /// What becomes of one request.
    struct Decision {
        var reply: Reply
        /// `nil`: the reply is the answer, in `delayNs`.
        var fault: Fault?
        var delayNs: Int64
    }

    /// Decides what becomes of a complete request whose refusal, if any, is known, and notes it in the books.
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
            let outcome: RequestOutcome =
                if let fault {
                    fault.isUnprocessed ? .notProcessed : fault.isProcessed ? .accepted : .unanswered
                } else {
                    answer.status == 200 ? .accepted : .refused(answer.reason)
                }
            state.note(outcome, id: id, token: token, index: arrival.index)
        }
        var delayNs = latency.nextNs(using: &random)
        if case .late(let more)? = fault {
            delayNs += more.nextNs(using: &random)
            fault = nil
        }
        let reply = Reply(
            status: answer.status, reason: answer.reason, body: answer.body, isOwnID: isOwnID, idHigh: id.high,
            idLow: id.low, timestampMs: answer.status == 410 ? unregisteredAtMs(token: request.token) : 0,
            isBroadcast: request.isBroadcast)
        return Decision(reply: reply, fault: fault, delayNs: delayNs)
    }

    @inline(__always)
    private func asked(by token: UnsafeRawBufferPointer, earlier: UInt32) -> Fault? {
        guard let entry = TokenTable.entry(for: token) else { return nil }
        return entry.times == 0 || earlier < UInt32(entry.times) ? entry.fault : nil
    }

    /// The token's digits, known to be hex, as bytes; lent until the next call.
    @inline(__always)
    private func decode(_ token: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let count = token.count / 2
        for index in 0..<count {
            tokenBytes[index] = digitValues[Int(token[index * 2])] << 4 | digitValues[Int(token[index * 2 + 1])]
        }
        return UnsafeRawBufferPointer(rebasing: tokenBytes[..<count])
    }

    private let digitValues: UnsafePointer<UInt8> = hexValues
}

/// The value of each hex digit; 255 for any other byte. Never freed.
nonisolated(unsafe) let hexValues: UnsafePointer<UInt8> = {
    let table = UnsafeMutablePointer<UInt8>.allocate(capacity: 256)
    for byte in 0..<256 { (table + byte).initialize(to: hexDigit(UInt8(byte)) ?? 255) }
    return UnsafePointer(table)
}()

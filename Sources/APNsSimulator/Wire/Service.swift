internal import Bytes
import EventLoop
import PushRecords

/// The state that all HTTP/2 connections share: checks, faults, and recorded requests. Not thread-safe.
final class Service {
    let books: Books
    let check: RequestCheck
    var options: SimulatorOptions
    var reader: ProviderTokenReader
    var replies: ReplyWriter
    var schedule: FaultSchedule
    var due = DueQueue()
    private var random: SplitMix64
    /// The buffer for a request's device token.
    let tokenRoom = UnsafeMutableRawBufferPointer.allocate(byteCount: 100, alignment: 16)

    init(
        options: SimulatorOptions, keys: [ProviderKey], books: Books, channels: ChannelBook = ChannelBook(),
        nowNs: Int64
    ) {
        self.books = books
        check = RequestCheck(
            bundleIDs: options.bundleIDs.map { Array($0.utf8) }, checksTopicSuffixes: options.checksTopicSuffixes,
            withoutBroadcast: options.withoutBroadcast.map { Array($0.utf8) }, channels: channels)
        self.options = options
        reader = ProviderTokenReader(keys: keys)
        replies = ReplyWriter(hasUniqueID: options.environment == .development, seed: options.seed)
        schedule = FaultSchedule(rules: options.faults, nowNs: nowNs)
        random = SplitMix64(seed: options.seed)
    }

    deinit { tokenRoom.deallocate() }

    /// Decides how to answer a complete request, given the result of the checks, and records the request in `books`.
    /// Returns the fault to inject, or `nil` to send the reply after `delayNs`.
    @inline(__always)
    func decide(_ request: CheckedRequest, refusal: ReasonCode) -> (reply: Reply, fault: Fault?, delayNs: Int64) {
        var id = request.id
        let isOwnID = id == .none
        if isOwnID { id = replies.newID() }
        let token = request.token
        var answer = refusal == .none ? Answer.accepted : Answer(refusal)
        var fault: Fault?
        books.write { state in
            let arrival = state.book.arrive(token: token)
            if refusal == .none {
                let asked = TokenTable.entry(for: token)
                let applies = asked.map { $0.times == 0 || arrival.earlier < UInt32($0.times) } ?? false
                fault = applies ? asked?.fault : schedule.forRequest()
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
            timestampMs: answer.status == 410 ? unregisteredAtMs(token: token) : 0,
            isBroadcast: request.isBroadcast)
        return (reply, fault, delayNs)
    }
}

import EventLoop
import HTTP2
import PushRecords

/// The server side of one HTTP/2 connection: checks requests, answers them, and injects faults. `ServerSession`
/// implements HTTP/2.
///
/// The dialogue uses neither socket nor clock: `ServerConnection` passes it the received bytes and the time, sends
/// `sendable`, and closes the connection in the way that `ending` names. Not thread-safe.
final class Dialogue {
    /// The way in which the owner ends the connection once it has sent `sendable`.
    enum Ending: UInt8 {
        case none
        /// Sends close_notify, then closes the TCP connection.
        case close
        /// Ends the TCP stream without close_notify.
        case cut
        /// Resets the TCP connection and discards unsent output.
        case reset
    }

    let service: Service
    let session: ServerSession
    private let number: Int
    private let managesChannels: Bool
    /// Whether requests on this connection need a provider token.
    private let needsToken: Bool
    private var credential = ConnectionCredential()
    /// The bundle id of the client certificate.
    private let certificateTopic: [UInt8]?
    let check: RequestCheck
    private(set) var ending = Ending.none
    /// The remaining number of output bytes to send, or `nil` if no fault limits the output.
    private var outputLeft: Int?
    /// The size of the unsent output before the current call of `receive`, or 0 outside a call.
    private var outputAtStart = 0
    /// Whether a fault has silenced the connection: it ignores received bytes and produces no further output.
    private(set) var isSilent = false
    /// The lowest last stream id in the GOAWAY frames sent.
    private var lastStream = Int32.max
    private var highestProcessed: Int32 = 0
    /// Whether the simulator has sent a GOAWAY. The connection closes once every stream is answered.
    private var isLeaving = false
    /// The way in which the owner must split the output.
    private(set) var pace = Pace.whole
    /// The delays that reverse the order of answers, or `nil` if the fault `outOfOrder` is not active.
    private var reversal: AnswerReversal?

    enum Pace: UInt8 {
        case whole
        /// The output is sent in pieces of 1 to 7 bytes.
        case pieces
        /// The output is sent in pieces of 1 to 7 bytes, one every 2 ms.
        case slowPieces
    }

    /// - Parameter certificateUserID: `UID` of the client certificate, if the client sent one.
    init(
        service: Service, number: Int, managesChannels: Bool, hasCertificate: Bool, certificateUserID: String?
    ) throws(HTTP2Error) {
        self.service = service
        self.number = number
        self.managesChannels = managesChannels
        certificateTopic = certificateUserID.map { Array($0.utf8) }
        var check = service.check
        check.isCertificate = hasCertificate
        if let certificateTopic {
            check.defaultTopic = certificateTopic
            check.bundleIDs = [certificateTopic]
        }
        self.check = check
        needsToken = service.options.wantsProviderToken && !hasCertificate
        var options = ServerSession.Options()
        options.settings = [
            .headerTableSize(4_096),
            .maxConcurrentStreams(needsToken ? service.options.firstStreams : service.options.streams),
            .initialWindowSize(65_535), .maxFrameSize(16_384), .maxHeaderListSize(8_000),
        ]
        options.requestLimit = 16 << 10
        options.canStall = true
        session = try ServerSession(options: options)
    }

    // MARK: Bytes

    /// The bytes to send, valid until the next call.
    var sendable: UnsafeRawBufferPointer {
        let output = session.output
        guard let outputLeft, outputLeft < output.count else { return output }
        return UnsafeRawBufferPointer(rebasing: output[..<outputLeft])
    }

    /// Removes the first `count` bytes of `sendable`, because the owner has sent them.
    func consume(_ count: Int) {
        session.consumeOutput(count)
        if let left = outputLeft { outputLeft = left - count }
        if isLeaving, session.isFinished, session.output.isEmpty, ending == .none { ending = .close }
    }

    /// Processes bytes from the client and sends the answers that need no delay.
    func receive(_ bytes: UnsafeRawBufferPointer, now: LoopTime) {
        if isSilent || ending != .none { return }
        outputAtStart = session.output.count
        defer { outputAtStart = 0 }
        do throws(HTTP2Error) {
            try session.receive(bytes)
            while ending == .none, !isSilent, let event = session.nextEvent() {
                switch event {
                case .request(let stream): try answer(stream: stream, now: now)
                case .closed, .goAway, .settings: break
                }
            }
        } catch {
            // nghttp2 cannot continue the session, for example after a wrong connection preface or a flood of frames.
            ending = .close
        }
        // A session is finished after the client violated the protocol, or sent GOAWAY and received all answers.
        if session.isFinished, ending == .none { ending = .close }
    }

    // MARK: Requests

    private func answer(stream: Int32, now: LoopTime) throws(HTTP2Error) {
        if stream > lastStream {
            service.books.write { $0.totals.notProcessed += 1 }
            return
        }
        var fields = RequestFields()
        for index in 0..<session.headerCount {
            let header = session.header(index)
            fields.add(name: header.name, value: header.value)
        }
        if managesChannels { return try manage(fields, stream: stream, now: now) }
        var request = CheckedRequest()
        var refusal = check.target(fields, room: service.tokenRoom, into: &request)
        if refusal == .none { refusal = try authorize(fields, now: now) }
        if refusal == .none {
            refusal = check.content(fields, body: session.body, bodySize: session.bodyLength, request: request)
        }
        let decision = service.decide(request, refusal: refusal)
        if let fault = decision.fault {
            try inject(fault, stream: stream, reply: decision.reply, now: now)
        } else {
            try answer(decision.reply, stream: stream, delayNs: decision.delayNs, now: now)
        }
    }

    /// Checks a request's provider token, if the connection needs one. The first valid token raises the stream limit.
    private func authorize(_ fields: RequestFields, now: LoopTime) throws(HTTP2Error) -> ReasonCode {
        guard needsToken else { return .none }
        let wasKnown = credential.isKnown
        let refusal = credential.check(fields.authorization, reader: &service.reader, wallMs: now.wallMs)
        if !service.reader.leniencies.isEmpty {
            service.books.write { state in
                for name in service.reader.leniencies { state.totals.leniencies[name, default: 0] += 1 }
            }
            service.reader.leniencies = []
        }
        if credential.isKnown, !wasKnown {
            try session.changeSettings([.maxConcurrentStreams(service.options.streams)])
        }
        return refusal
    }

    /// Answers a processed request after a delay, or immediately if `delayNs` is 0.
    private func answer(_ reply: Reply, stream: Int32, delayNs: Int64, now: LoopTime) throws(HTTP2Error) {
        highestProcessed = max(highestProcessed, stream)
        let delayNs = delayNs + (reversal?.delayNs(nowNs: now.monotonicNs) ?? 0)
        if delayNs > 0 {
            service.due.push(
                DueAnswer(dueNs: now.monotonicNs + delayNs, connection: number, stream: stream, reply: reply))
        } else {
            try service.replies.write(reply, stream: stream, to: session)
        }
    }

    /// Sends a delayed answer, which is due now.
    func answer(_ due: DueAnswer) {
        if isSilent || ending != .none { return }
        do { try service.replies.write(due.reply, stream: due.stream, to: session) } catch { ending = .close }
    }

    // MARK: Faults

    /// Applies a fault to a request.
    private func inject(_ fault: Fault, stream: Int32, reply: Reply, now: LoopTime) throws(HTTP2Error) {
        switch fault {
        case .answer, .late, .noAnswer: break
        case .resetStream: try session.reset(stream: stream, .internalError)
        case .refuseStream: try session.reset(stream: stream, .refusedStream)
        case .goAway(.below):
            // With long bodies, requests complete out of order. The last stream id must not be below a processed
            // stream.
            try leave(last: max(stream - 2, highestProcessed), "")
        case .outOfOrder:
            try inject(fault)
            try answer(reply, stream: stream, delayNs: 0, now: now)
        case .cut(.inside):
            let before = session.output.count
            try service.replies.write(reply, stream: stream, to: session)
            outputLeft = before + (session.output.count - before) / 2
            cut(.cut)
        case .cut(.after):
            try service.replies.write(reply, stream: stream, to: session)
            cut(.close)
        case .goAway, .stall, .streams, .splitFrames, .slowFrames, .cut(.before), .cut(.reset),
            .blackhole, .garbage:
            if fault.outcome == .accepted {
                highestProcessed = max(highestProcessed, stream)
                try service.replies.write(reply, stream: stream, to: session)
            }
            try inject(fault)
        }
    }

    /// Applies a fault to the whole connection. A fault of a single request has no effect. On a connection that sends
    /// nothing (`isSilent`), only a cut has an effect.
    func inject(_ fault: Fault) throws(HTTP2Error) {
        if ending != .none { return }
        if isSilent, fault != .cut(.before), fault != .cut(.reset) { return }
        switch fault {
        case .answer, .late, .noAnswer, .resetStream, .refuseStream, .cut(.inside), .cut(.after), .goAway(.below): break
        case .goAway(let kind):
            if kind == .twice { try session.shutdownNotice() }
            try leave(last: kind == .badEnvironment ? 0 : session.lastStreamID, kind.debugData)
            if !kind.isAnswered { ending = .close }
        case .cut(.before): cut(.cut)
        case .cut(.reset): cut(.reset)
        case .blackhole:
            // Suppress even the acknowledgement of a PING that arrived with the same bytes.
            outputLeft = outputAtStart
            isSilent = true
        case .stall: try session.setStalled(true)
        case .streams(let count): try session.changeSettings([.maxConcurrentStreams(count)])
        case .garbage:
            session.appendRaw([UInt8](repeating: 0xFF, count: 64))
            isSilent = true
        case .splitFrames: pace = .pieces
        case .slowFrames: pace = .slowPieces
        case .outOfOrder: reversal = reversal ?? AnswerReversal()
        }
    }

    /// Sends SETTINGS with the service's stream limit, unless the connection still lacks a valid provider token.
    func announceStreams() throws(HTTP2Error) {
        if isSilent || ending != .none || needsToken && !credential.isKnown { return }
        try session.changeSettings([.maxConcurrentStreams(service.options.streams)])
    }

    private func leave(last: Int32, _ debugData: String) throws(HTTP2Error) {
        lastStream = min(lastStream, last)
        try session.goAway(lastStreamID: last, .noError, Array(debugData.utf8))
        isLeaving = true
        service.books.write { $0.totals.goAways += 1 }
    }

    private func cut(_ ending: Ending) {
        self.ending = ending
        service.books.write { $0.totals.cuts += 1 }
    }

    // MARK: Channels

    /// Answers a channel management request immediately. The only fault that applies is an error answer that the
    /// channel id requests.
    private func manage(_ fields: RequestFields, stream: Int32, now: LoopTime) throws(HTTP2Error) {
        let check = ManagementCheck(common: check)
        var (target, refusal) = check.target(fields)
        if refusal == .none { refusal = try authorize(fields, now: now) }
        var answer = ManagementCheck.Answer(refusal)
        if let target, refusal == .none {
            answer = check.answer(target, fields, body: session.body)
            // A channel id can request a fault, as a device token can.
            let entry = channelBytes(fields.channelID)?.withUnsafeBytes { TokenTable.entry(for: $0) }
            if case .answer(let wanted)? = entry?.fault {
                answer = ManagementCheck.Answer(wanted.reason)
                answer.status = wanted.status
            }
        }
        let id = NotificationUUID(text: fields.requestID) ?? service.replies.newID()
        try service.replies.write(answer, id: id, stream: stream, to: session)
    }
}

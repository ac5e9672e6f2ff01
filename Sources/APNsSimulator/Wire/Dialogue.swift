import EventLoop
import HTTP2
import PushRecords

/// One connection's conversation, as bytes in and bytes out: HTTP/2 through `ServerSession`, checks, answers, faults.
/// No socket, no clock: its owner brings the bytes and the time, sends `sendable`, and does what `ending` says. One
/// thread.
final class Dialogue {
    /// What the owner has to do with the connection once `sendable` is sent.
    enum Ending: UInt8 {
        case none
        /// In order: close_notify.
        case close
        /// The TCP stream ends, without close_notify.
        case cut
        /// TCP reset; what is unsent is dropped.
        case reset
    }

    let service: Service
    let session: ServerSession
    private let number: Int
    var credential = ConnectionCredential()
    /// A client certificate's bundle id.
    private let certificateTopic: [UInt8]?
    let check: RequestCheck
    private(set) var ending = Ending.none
    /// How many bytes of the session's output may still be sent. `nil` is no limit.
    private var outputLeft: Int?
    /// How much output waited when the bytes being handled came.
    private var outputAtStart = 0
    /// Takes everything and says nothing any more.
    private(set) var isSilent = false
    /// The peer was told that streams above this are not processed.
    private var lastStream = Int32.max
    private var highestProcessed: Int32 = 0
    /// A GOAWAY went out: the connection closes once every stream is answered.
    private var isLeaving = false
    private var hasAllStreams: Bool
    /// How its owner is asked to send.
    private(set) var pace = Pace.whole
    /// Answers go out last first.
    private var turnedAround: AnswerReversal?

    enum Pace: UInt8 {
        case whole
        /// Pieces of 1 to 7 bytes.
        case pieces
        /// Such a piece every so often.
        case slowPieces
    }

    /// - Parameter certificateUserID: `UID` of the client certificate, where there is one.
    init(
        service: Service, number: Int, hasCertificate: Bool, certificateUserID: String?
    ) throws(HTTP2Error) {
        self.service = service
        self.number = number
        certificateTopic = certificateUserID.map { Array($0.utf8) }
        var check = service.check
        check.isCertificate = hasCertificate
        if let certificateTopic {
            check.defaultTopic = certificateTopic
            check.bundleIDs = [certificateTopic]
        }
        self.check = check
        hasAllStreams = hasCertificate || !service.wantsProviderToken
        var options = ServerSessionOptions()
        options.settings = [
            .headerTableSize(4_096),
            .maxConcurrentStreams(hasAllStreams ? service.streams : service.firstStreams),
            .initialWindowSize(65_535), .maxFrameSize(16_384), .maxHeaderListSize(8_000),
        ]
        options.requestLimit = 16 << 10
        options.canStall = true
        session = try ServerSession(options: options)
    }

    // MARK: Bytes

    /// What is to be sent; lent until the next call.
    var sendable: UnsafeRawBufferPointer {
        let output = session.output
        guard let outputLeft, outputLeft < output.count else { return output }
        return UnsafeRawBufferPointer(rebasing: output[..<outputLeft])
    }

    /// The first bytes of `sendable` were sent.
    func consume(_ count: Int) {
        session.consumeOutput(count)
        if let left = outputLeft { outputLeft = left - count }
        if isLeaving, session.isFinished, session.output.isEmpty, ending == .none { ending = .close }
    }

    /// Takes what the client sent, and answers what can be answered now.
    func receive(_ bytes: UnsafeRawBufferPointer, now: LoopTime) {
        if isSilent || ending != .none { return }
        outputAtStart = session.output.count
        defer { outputAtStart = 0 }
        do throws(HTTP2Error) {
            try session.receive(bytes)
            while ending == .none, !isSilent, let event = session.nextEvent() {
                switch event {
                case .request(let stream): try answer(stream: stream, now: now)
                case .headers, .closed, .goAway, .settings: break
                }
            }
        } catch {
            // The client broke the protocol beyond an answer; nghttp2 has said so in a GOAWAY if it could.
            ending = .close
        }
        // Nothing to read or write any more: the client broke a rule, or left and has all its answers.
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
        if service.role == .management { return try manage(fields, stream: stream, now: now) }
        var request = CheckedRequest()
        var refusal = check.target(fields, into: &request)
        if request.isBroadcast { request.token = service.channelHex(fields.channelID) }
        if refusal == .none, service.wantsProviderToken, !check.isCertificate {
            refusal = credential.check(
                fields.authorization, reader: &service.reader, lifetimes: service.lifetimes, wallMs: now.wallMs)
        }
        if refusal == .none {
            refusal = check.content(fields, body: session.body, bodySize: session.bodyLength, request: request)
        }
        let decision = service.decide(request, refusal: refusal)
        try openAllStreams()
        if let fault = decision.fault {
            try befall(fault, stream: stream, reply: decision.reply, now: now)
        } else {
            try answer(decision.reply, stream: stream, delayNs: decision.delayNs, now: now)
        }
    }

    /// All streams are for whoever has shown a valid provider token.
    func openAllStreams() throws(HTTP2Error) {
        guard !hasAllStreams, credential.isKnown else { return }
        hasAllStreams = true
        try session.changeSettings([.maxConcurrentStreams(service.streams)])
    }

    /// The request is processed; its answer goes out now or later.
    private func answer(_ reply: Reply, stream: Int32, delayNs: Int64, now: LoopTime) throws(HTTP2Error) {
        highestProcessed = max(highestProcessed, stream)
        var delayNs = delayNs
        if turnedAround != nil { delayNs += turnedAround!.delayNs(nowNs: now.monotonicNs) }
        if delayNs > 0 {
            service.due.push(
                DueAnswer(dueNs: now.monotonicNs + delayNs, connection: number, stream: stream, reply: reply))
        } else {
            try service.replies.write(reply, stream: stream, to: session)
        }
    }

    /// Sends an answer whose time has come.
    func answer(_ due: DueAnswer) {
        if isSilent || ending != .none { return }
        do throws(HTTP2Error) {
            try service.replies.write(due.reply, stream: due.stream, to: session)
        } catch {
            ending = .close
        }
    }

    // MARK: Faults

    private func befall(_ fault: Fault, stream: Int32, reply: Reply, now: LoopTime) throws(HTTP2Error) {
        switch fault {
        case .answer, .late, .noAnswer: break
        case .resetStream: try session.reset(stream: stream, .internalError)
        case .refuseStream: try session.reset(stream: stream, .refusedStream)
        case .goAway(.below):
            // Streams end out of order when bodies are long: nothing that was processed may be disowned.
            try leave(last: max(stream - 2, highestProcessed), "")
        case .goAway(.graceful), .goAway(.reason), .goAway(.text), .goAway(.twice), .stall, .oneStream, .streams,
            .splitFrames, .slowFrames:
            highestProcessed = max(highestProcessed, stream)
            try service.replies.write(reply, stream: stream, to: session)
            try befall(fault)
        case .outOfOrder:
            try befall(fault)
            try answer(reply, stream: stream, delayNs: 0, now: now)
        case .cut(.inside):
            let before = session.output.count
            try service.replies.write(reply, stream: stream, to: session)
            outputLeft = before + (session.output.count - before) / 2
            cut(.cut)
        case .cut(.after):
            try service.replies.write(reply, stream: stream, to: session)
            cut(.close)
        case .goAway(.immediate), .goAway(.immediateReason), .goAway(.badEnvironment), .cut(.before), .cut(.reset),
            .blackhole, .garbage:
            try befall(fault)
        }
    }

    /// A fault of the whole connection, now; a fault of a request does nothing. Of what silenced it only a cut frees
    /// it.
    func befall(_ fault: Fault) throws(HTTP2Error) {
        if ending != .none { return }
        if isSilent, fault != .cut(.before), fault != .cut(.reset) { return }
        switch fault {
        case .answer, .late, .noAnswer, .resetStream, .refuseStream, .cut(.inside), .cut(.after), .goAway(.below): break
        case .goAway(.graceful): try leave(last: session.lastStreamID, "")
        case .goAway(.reason(let reason)): try leave(last: session.lastStreamID, Self.debugData(reason))
        case .goAway(.text): try leave(last: session.lastStreamID, GoAway.plainText)
        case .goAway(.twice):
            try session.shutdownNotice()
            try leave(last: session.lastStreamID, "")
        case .goAway(.immediate):
            try leave(last: session.lastStreamID, "")
            ending = .close
        case .goAway(.immediateReason(let reason)):
            try leave(last: session.lastStreamID, Self.debugData(reason))
            ending = .close
        case .goAway(.badEnvironment):
            try leave(last: 0, Self.debugData(.badCertificateEnvironment))
            ending = .close
        case .cut(.before): cut(.cut)
        case .cut(.reset): cut(.reset)
        case .blackhole:
            // Not even the acknowledgement of a PING that came with the same bytes.
            outputLeft = outputAtStart
            isSilent = true
        case .stall: try session.setStalled(true)
        case .oneStream:
            try session.changeSettings([.maxConcurrentStreams(1)])
            hasAllStreams = false
        case .streams(let count): try session.changeSettings([.maxConcurrentStreams(count)])
        case .garbage:
            session.appendRaw([UInt8](repeating: 0xFF, count: 64))
            isSilent = true
        case .splitFrames: pace = .pieces
        case .slowFrames: pace = .slowPieces
        case .outOfOrder: turnedAround = turnedAround ?? AnswerReversal()
        }
    }

    private static func debugData(_ reason: ReasonCode) -> String {
        "{\"reason\":\"\(reason.text?.description ?? "")\"}"
    }

    /// SETTINGS with the service's number of streams, unless the connection has yet to show a valid provider token.
    func announceStreams() throws(HTTP2Error) {
        if isSilent || ending != .none || !hasAllStreams { return }
        try session.changeSettings([.maxConcurrentStreams(service.streams)])
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
}

extension Dialogue {
    /// Answers a request of channel management, at once: faults are of notifications.
    func manage(_ fields: RequestFields, stream: Int32, now: LoopTime) throws(HTTP2Error) {
        let check = ManagementCheck(common: check)
        var (target, refusal) = check.target(fields)
        if refusal == .none, service.wantsProviderToken, !check.common.isCertificate {
            refusal = credential.check(
                fields.authorization, reader: &service.reader, lifetimes: service.lifetimes, wallMs: now.wallMs)
        }
        var answer = ManagementCheck.Answer(refusal)
        if let target, refusal == .none {
            answer = check.answer(target, fields, body: session.body)
            // A channel id may ask for an answer, as a device token may.
            if case .answer(let wanted)? = TokenTable.entry(for: service.channelHex(fields.channelID))?.fault {
                answer = ManagementCheck.Answer(wanted.reason)
                answer.status = wanted.status
            }
        }
        try write(answer, id: check.common.uuid(fields.requestID) ?? service.replies.newID(), stream: stream)
        try openAllStreams()
    }

    private func write(
        _ answer: ManagementCheck.Answer, id: NotificationUUID, stream: Int32
    ) throws(HTTP2Error) {
        var body = answer.body
        if let reason = answer.reason.text { body = "{\"reason\":\"\(reason)\"}" }
        // Lent to the list until the session has taken it: status, ids and body.
        let text = UnsafeMutableRawBufferPointer.allocate(byteCount: 320 + body.utf8.count, alignment: 1)
        defer { text.deallocate() }
        var used = 0
        func lend(_ value: String) -> UnsafeRawBufferPointer {
            let start = used
            used += value.utf8.count
            UnsafeMutableRawBufferPointer(rebasing: text[start..<used]).copyBytes(from: value.utf8)
            return UnsafeRawBufferPointer(rebasing: text[start..<used])
        }
        var headers = HeaderList()
        headers.append(":status", lend("\(answer.status)"))
        headers.append("apns-request-id", lend(id.description), .never)
        if let channelID = answer.channelID { headers.append("apns-channel-id", lend(channelID), .never) }
        if !body.isEmpty { headers.append("content-type", "application/json") }
        _ = try session.respond(stream: stream, headers, body: lend(body))
    }
}

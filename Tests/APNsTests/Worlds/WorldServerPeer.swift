import HTTP2
import Network
import TestSupport

@testable import APNs

/// The server's side of an HTTP/2 connection. It answers, and performs the faults of its host's mood.
final class WorldServerPeer: WorldPeer {
    let connection: WorldConnection
    private(set) var isClosed = false
    var falselyAccepted: Int { 0 }
    unowned let host: WorldHost
    private let session: ServerSession
    private(set) var channel: MemoryChannel!
    private var tries: [Int32: WorldTry] = [:]
    private var seen: [Int32] = []
    /// The output that was not sent yet.
    private var output: [UInt8] = []
    /// The number of bytes passed to the channel.
    private var passed: Int64 = 0
    private var isPassing = false
    /// The sent answers, with the position of their end in the output and the turn in which the end was sent.
    private var said: [(answered: WorldTry, end: Int64, turn: Int?)] = []
    private var isMute = false
    private var isDeaf = false
    private var unheard: [UInt8] = []
    private var hasGoneAway = false

    /// The maximum number of turns between an answer and its completion.
    private static let patienceTurns = 4

    init(_ host: WorldHost, _ connection: WorldConnection) {
        self.host = host
        self.connection = connection
        var options = ServerSession.Options()
        let chronicle = host.chronicle
        options.canStall = true
        if !host.isWell {
            options.settings = [
                .maxConcurrentStreams(UInt32(chronicle.pick([0, 1, 2, 5, 20, 100, 1_000]))),
                .initialWindowSize(UInt32(chronicle.pick([0, 100, 65_535, 65_535, 65_535]))),
            ]
        }
        session = try! ServerSession(options: options)
    }

    func take(_ channel: MemoryChannel) { self.channel = channel }

    // MARK: Channel

    func channelOpened(applicationProtocol: String?) {
        if does(.isMute) {
            chronicle.note("no SETTINGS")
            isMute = true
            return host.after(chronicle.ms(100...20_000)) { [self] in
                connection.wasReady = true
                listen()
                pass()
            }
        }
        connection.wasReady = true
        if does(.talksNonsense) {
            chronicle.note("nonsense")
            session.consumeOutput(session.output.count)
            session.appendRaw(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        } else if does(.closesAtOnce) {
            chronicle.note("closed after SETTINGS")
            if chronicle.chance(50) { goAway() }
            pass()
            return end()
        }
        pass()
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        if isDeaf || isMute { return unheard += bytes }
        hear(bytes)
    }

    func channelWritable() { pass() }
    func channelClosed(_ end: ChannelEnd) { isClosed = true }

    private func hear(_ bytes: UnsafeRawBufferPointer) {
        do { try session.receive(bytes) } catch { return channel.abort() }
        while let event = session.nextEvent() {
            if case .request(let stream) = event { requested(stream) }
        }
        pass()
    }

    // MARK: Requests

    private func requested(_ stream: Int32) {
        var path = ""
        for index in 0..<session.headerCount {
            let (name, value) = session.header(index)
            if name.elementsEqual(":path".utf8) { path = String(decoding: value, as: UTF8.self) }
        }
        guard let serial = WorldTry.serial(ofToken: path.utf8.dropFirst("/3/device/".utf8.count)),
            Int(serial) < host.tries.count, host.tries[Int(serial)].isPayload(session.body)
        else { return chronicle.broke("an unknown request arrived: \(path), \(session.body.count) bytes") }
        let arrived = host.tries[Int(serial)]
        host.came(arrived, over: connection)
        chronicle.check(stream < host.retirementStreamID, "a request arrived on stream \(stream) after the limit")
        tries[stream] = arrived
        seen.append(stream)
        chronicle.trace("#\(connection.number) stream \(stream): try \(serial) of \(arrived.number)")
        if host.poisons.contains(arrived.number) {
            chronicle.note("poison")
            return host.after(chronicle.ms(0...30)) { [self] in channel.cut() }
        }
        let lateNs = does(.isLate) ? chronicle.ms(500...8_000) : chronicle.ms(0...40)
        if does(.refuses) {
            chronicle.note("stream refused")
            arrived.isDenied = true
            reset(stream, .refusedStream)
        } else if does(.resets) {
            chronicle.note("stream reset")
            arrived.isDelivered = chronicle.chance(50)
            let code = ErrorCode(rawValue: UInt32(chronicle.pick([0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13, 99])))
            host.after(lateNs) { [self] in reset(stream, code) }
        } else if does(.swallows) {
            chronicle.note("no answer")
            arrived.isDelivered = chronicle.chance(50)
        } else {
            var status: UInt16 = 200
            if does(.hasBroken) {
                status = UInt16(chronicle.pick([500, 503]))
            } else if does(.errs) {
                status = UInt16(chronicle.pick([400, 403, 410, 429, 500, 502, 503]))
            }
            let isHalf = does(.halves)
            host.after(lateNs) { [self] in answer(stream, status, isHalf: isHalf) }
        }
    }

    private func reset(_ stream: Int32, _ code: ErrorCode) {
        guard !isClosed else { return }
        try? session.reset(stream: stream, code)
        pass()
    }

    private func answer(_ stream: Int32, _ status: UInt16, isHalf: Bool) {
        guard !isClosed, let answered = tries[stream] else { return }
        let statusText = Lent("\(status)")
        let body = Lent(status == 200 && !isHalf ? "" : Self.body(status, chronicle))
        var headers = HeaderList()
        headers.append(":status", statusText.bytes)
        guard (try? session.respond(stream: stream, headers, body: body.bytes, isEnd: !isHalf)) == true else { return }
        answered.statusSaid = status
        if status == 200 { answered.isDelivered = true }
        connection.answers += 1
        guard isHalf else {
            said.append((answered, session.outputTotal, nil))
            return pass()
        }
        chronicle.note("half an answer")
        pass()
        if chronicle.chance(60) { host.after(chronicle.ms(0...1_000)) { [self] in reset(stream, .internalError) } }
    }

    private static func body(_ status: UInt16, _ chronicle: WorldChronicle) -> String {
        let reasons =
            switch status {
            case 400: ["BadDeviceToken", "TopicDisallowed", "IdleTimeout", "PayloadEmpty"]
            case 403: ["ExpiredProviderToken", "InvalidProviderToken", "BadCertificate", "UnrelatedKeyIdInToken"]
            case 410: ["Unregistered", "ExpiredToken"]
            case 429: ["TooManyRequests", "TooManyProviderTokenUpdates"]
            case 502: [""]
            default: ["InternalServerError", "ServiceUnavailable", "Shutdown"]
            }
        let reason = chronicle.pick(reasons)
        if reason.isEmpty { return "<html>Bad Gateway</html>" }
        return #"{"reason":"\#(reason)"\#(status == 410 ? #","timestamp":1790000000000"# : "")}"#
    }

    // MARK: Faults

    func misbehave() {
        if does(.goesAway) { goAway() }
        if does(.changesSettings) {
            chronicle.note("SETTINGS change")
            try? session.changeSettings([.maxConcurrentStreams(UInt32(chronicle.pick([0, 0, 1, 3, 20, 100])))])
        }
        if does(.stalls) {
            chronicle.note("windows closed")
            try? session.setStalled(true)
            host.after(chronicle.ms(100...10_000)) { [self] in stalled(false) }
        }
        if does(.isDeaf) {
            chronicle.note("deaf")
            isDeaf = true
            host.after(chronicle.ms(100...10_000)) { [self] in listen() }
        }
        fillKernel()
        if does(.talksNonsense) {
            chronicle.note("nonsense")
            // These are answers or ends for a stream that was never opened. Its id is higher than any in these worlds.
            let stream: UInt8 = chronicle.pick([2, 251])
            let frame: [UInt8] = chronicle.pick([
                [0, 0, 1, 1, 5, 0x40, 0, 0, stream, 0x88], [0, 0, 4, 3, 0, 0x40, 0, 0, stream, 0, 0, 0, 7],
                [0, 0, 2, 0, 1, 0x40, 0, 0, stream, 7, 7],
            ])
            session.appendRaw(frame)
        }
        if does(.ends) { return end() }
        pass()
    }

    /// Sends a GOAWAY with a random last stream id. Streams above it were not processed.
    private func goAway() {
        chronicle.note("GOAWAY")
        let last = chronicle.pick([
            session.lastStreamID, session.lastStreamID, 0, seen.randomElement(using: &chronicle.random) ?? 0, .max,
        ])
        let code = ErrorCode(rawValue: UInt32(chronicle.pick([0, 0, 0, 1, 2, 11])))
        let reason = chronicle.pick(["", "", "Shutdown", "IdleTimeout", "BadCertificate", "ExpiredProviderToken"])
        for (stream, held) in tries where stream > last { held.isDenied = true }
        chronicle.trace("#\(connection.number) GOAWAY \(last) \(code) \(reason)")
        try? session.goAway(lastStreamID: last, code, reason.isEmpty ? [] : Array(#"{"reason":"\#(reason)"}"#.utf8))
        hasGoneAway = true
        guard chronicle.chance(70) else { return }
        host.after(chronicle.ms(0...3_000)) { [self] in end() }
    }

    private func end() {
        guard !isClosed else { return }
        connection.endedByPeer = true
        endAnyhow()
    }

    private func stalled(_ isStalled: Bool) {
        guard !isClosed else { return }
        try? session.setStalled(isStalled)
        pass()
    }

    private func listen() {
        guard !isClosed else { return }
        isDeaf = false
        isMute = false
        let bytes = unheard
        unheard = []
        bytes.withUnsafeBytes { hear($0) }
    }

    func becomeWell() {
        connection.channel?.kernelRoom = .max
        connection.wasReady = true
        try? session.changeSettings([.maxConcurrentStreams(100), .initialWindowSize(65_535)])
        stalled(false)
        if isMute || isDeaf { listen() }
        pass()
        if hasGoneAway { host.after(chronicle.ms(0...3_000)) { [self] in end() } }
    }

    // MARK: Output

    private func pass() {
        guard !isMute, !isClosed else { return }
        connection.wasReady = true
        output += session.output
        session.consumeOutput(session.output.count)
        guard !isPassing else { return }
        let isSplit = output.count > 1 && does(.splits)
        send(isSplit ? chronicle.number(1...output.count) : output.count)
        guard !output.isEmpty else { return }
        isPassing = true
        host.after(chronicle.ms(0...20)) { [self] in
            isPassing = false
            pass()
        }
    }

    private func send(_ count: Int) {
        guard count > 0 else { return }
        let taken = output[..<count].withUnsafeBytes { channel.send($0) }
        output.removeFirst(taken)
        passed += Int64(taken)
        channel.flush()
    }

    // MARK: Checks

    func turn() {}

    func check(turn: Int) {
        for index in said.indices where said[index].turn == nil && said[index].end <= passed {
            said[index].turn = turn
        }
        said.removeAll { $0.answered.isCompleted }
        guard let first = said.first, let since = first.turn, turn > since + Self.patienceTurns else { return }
        guard connection.channel?.isOpen == true, !isClosed else { return }
        chronicle.broke(
            "#\(connection.number) answered \(first.answered.statusSaid ?? 0) to try \(first.answered.serial), which "
                + "was not completed within \(turn - since) turns")
    }
}

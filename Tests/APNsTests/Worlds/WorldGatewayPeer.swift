import EventLoop
import Network

@testable import APNs

/// The gateway's side of a connection: a kernel that accepts bytes, and a program that reads them at its own pace and
/// answers errors.
final class WorldGatewayPeer: WorldPeer {
    private struct Frame {
        var identifier: UInt32
        /// The try in the frame, or `nil` for a fence.
        var held: WorldTry?
        /// The position after the frame in the connection's bytes.
        var end: Int64
        var arrivedNs: Int64
    }

    let connection: WorldConnection
    private(set) var isClosed = false
    unowned let host: WorldHost
    private let format: BinaryConfiguration.Format
    private let answersFence: Bool
    private(set) var channel: MemoryChannel!
    private var unparsed: [UInt8] = []
    private var arrivedBytes: Int64 = 0
    /// All frames that arrived.
    private var frames: [Frame] = []
    private var acknowledged = 0
    /// The number of frames that the program has read, and the identifier of the last one it processed.
    private var read = 0
    private var lastProcessed: UInt32 = 0
    /// Whether the program has stopped reading, because it answers or has answered an error.
    private var hasStopped = false
    private var hasSpoken = false
    private var isReading = true
    /// The time to process one frame, or 0 to process all available ones.
    private var paceNs: Int64 = 0
    private var isBusy = false
    /// The number of unread bytes that the gateway's kernel accepts.
    private let kernelBytes: Int64
    /// Whether the gateway's answer reached a client whose channel was open.
    private(set) var isHeard = false

    init(_ host: WorldHost, _ connection: WorldConnection, format: BinaryConfiguration.Format, answersFence: Bool) {
        self.host = host
        self.connection = connection
        self.format = format
        self.answersFence = answersFence
        kernelBytes = Int64(host.chronicle.pick([100, 1_000, 10_000]))
        if host.does(.isLate) { paceNs = host.chronicle.ms(1...100) }
    }

    func take(_ channel: MemoryChannel) { self.channel = channel }

    // MARK: Channel

    func channelOpened(applicationProtocol: String?) {
        connection.wasReady = true
        guard does(.closesAtOnce) else { return }
        chronicle.note("closed at once")
        end()
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        arrivedBytes += Int64(bytes.count)
        unparsed += bytes
        var taken = 0
        while let (frame, count) = ReadFrame.first(Array(unparsed[taken...])) {
            taken += count
            came(frame, end: arrivedBytes - Int64(unparsed.count - taken))
        }
        unparsed.removeFirst(taken)
        acknowledge()
        program()
    }

    func channelClosed(_ end: ChannelEnd) { isClosed = true }

    private func came(_ frame: ReadFrame, end: Int64) {
        if frame.isFence {
            chronicle.note(frames.isEmpty ? "asked for proof" : "fence")
            return frames.append(
                Frame(identifier: frame.identifier, held: nil, end: end, arrivedNs: host.loop.now.monotonicNs))
        }
        let digits = frame.token.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        guard let serial = WorldTry.serial(ofToken: digits.utf8), Int(serial) < host.tries.count,
            host.tries[Int(serial)].isPayload(frame.payload)
        else { return chronicle.broke("an unknown frame arrived: \(digits), \(frame.payload.count) bytes") }
        let held = host.tries[Int(serial)]
        chronicle.check(
            !connection.isQuarantine || frames.allSatisfy { $0.held?.isCompleted ?? true },
            "try \(serial) arrived over #\(connection.number) before the previous suspect was completed")
        host.came(held, over: connection)
        chronicle.trace("#\(connection.number) frame \(frame.identifier): try \(serial) of \(held.number)")
        frames.append(Frame(identifier: frame.identifier, held: held, end: end, arrivedNs: host.loop.now.monotonicNs))
    }

    /// Updates the unacknowledged bytes: those that exceed the kernel's buffer.
    private func acknowledge() {
        guard let client = connection.channel else { return }
        let readBytes = read == 0 ? 0 : frames[read - 1].end
        let limit = isReading && paceNs == 0 ? Int64.max : readBytes + kernelBytes
        client.unacknowledgedBytes = Int(max(0, client.writtenBytes - limit))
        let position = min(limit, arrivedBytes)
        while acknowledged < frames.count, frames[acknowledged].end <= position {
            frames[acknowledged].held?.acknowledgedNs = host.loop.now.monotonicNs
            acknowledged += 1
        }
        connection.waitingSinceNs = acknowledged < frames.count ? frames[acknowledged].arrivedNs : nil
    }

    func turn() { if !isClosed { acknowledge() } }

    // MARK: Program

    private func program() {
        guard isReading, !isBusy, !hasStopped, !isClosed, read < frames.count else { return }
        guard paceNs > 0 else {
            while read < frames.count, !hasStopped, isReading { processNext() }
            return
        }
        isBusy = true
        host.after(paceNs) { [self] in
            isBusy = false
            guard isReading, !hasStopped, !isClosed, read < frames.count else { return }
            processNext()
            acknowledge()
            program()
        }
    }

    private func processNext() {
        let frame = frames[read]
        read += 1
        guard let held = frame.held else {
            if answersFence { refuse(8, frame.identifier, lateMs: 0...40) } else { lastProcessed = frame.identifier }
            return
        }
        if host.poisons.contains(held.number) {
            chronicle.note("poison")
            hasStopped = true
            return host.after(chronicle.ms(0...30)) { [self] in if !isClosed { channel.cut() } }
        }
        if chronicle.chance(host.mood[.errs] / 10) {
            held.isDenied = true
            held.statusSaid = chronicle.pick([1, 2, 4, 5, 7, 8, 8, 8, 42, 255])
            return refuse(UInt8(held.statusSaid!), frame.identifier, lateMs: does(.isLate) ? 100...6_000 : 0...100)
        }
        held.isDelivered = true
        lastProcessed = frame.identifier
    }

    /// Answers an error and processes nothing from now on.
    private func refuse(_ status: UInt8, _ identifier: UInt32, lateMs: ClosedRange<Int>) {
        hasStopped = true
        if status != 8 || lateMs.upperBound > 40 { chronicle.note("error") }
        if lateMs.upperBound > 1_000 { chronicle.note("late error") }
        if format == .simple { return host.after(chronicle.ms(lateMs)) { [self] in endInOrder() } }
        host.after(chronicle.ms(lateMs)) { [self] in say(status, identifier) }
    }

    private func say(_ status: UInt8, _ identifier: UInt32, closes: Bool = true) {
        guard channel.isOpen, !hasSpoken else { return }
        hasSpoken = true
        hasStopped = true
        chronicle.trace("#\(connection.number) says \(status) for \(identifier)")
        let bytes: [UInt8] = [8, status] + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> (24 - 8 * $0)) }
        let split = does(.splits) ? chronicle.number(1...5) : 6
        if connection.channel?.isOpen == true { connection.answers += 1 }
        send(bytes[..<split])
        guard split < 6 else { return said(closes) }
        chronicle.note("answer in pieces")
        host.after(chronicle.ms(0...300)) { [self] in
            guard !isClosed else { return }
            send(bytes[split...])
            said(closes)
        }
    }

    private func said(_ closes: Bool) {
        isHeard = connection.channel?.isOpen == true
        if closes, chronicle.chance(80) { endInOrder() }
    }

    private func send(_ bytes: ArraySlice<UInt8>) {
        _ = bytes.withUnsafeBytes { channel.send($0) }
        channel.flush()
    }

    private func endInOrder() {
        guard !isClosed else { return }
        if chronicle.chance(70) { channel.close() } else { channel.cut() }
    }

    private func end() {
        guard !isClosed else { return }
        hasStopped = true
        endAnyhow()
    }

    // MARK: Faults

    func misbehave() {
        if does(.goesAway), !hasStopped {
            chronicle.note("shutdown")
            say(chronicle.chance(70) ? 10 : 0, lastProcessed)
        }
        if does(.isDeaf) {
            chronicle.note("reads nothing")
            isReading = false
            if chronicle.chance(80) { host.after(chronicle.ms(100...12_000)) { [self] in readOn() } }
        }
        fillKernel()
        if does(.changesSettings) {
            chronicle.note("another pace")
            paceNs = chronicle.chance(50) ? 0 : chronicle.ms(1...200)
            program()
        }
        if does(.lies) {
            chronicle.note("error for any identifier")
            connection.lies = true
            let known = frames.randomElement(using: &chronicle.random)?.identifier ?? 1
            say(chronicle.pick([0, 8, 10, 255]), chronicle.pick([known, known, 0, 1, .max, known &+ 1_000]))
        }
        if does(.talksNonsense), !hasSpoken {
            chronicle.note("nonsense")
            hasSpoken = true
            hasStopped = true
            send([72, 84, 84, 80])
        }
        if does(.ends) { end() }
    }

    private func readOn() {
        guard !isClosed else { return }
        isReading = true
        program()
        acknowledge()
    }

    func becomeWell() {
        connection.channel?.kernelRoom = .max
        paceNs = 0
        isBusy = false
        readOn()
        if hasStopped { host.after(chronicle.ms(0...7_000)) { [self] in end() } }
    }

    // MARK: Checks

    var falselyAccepted: Int {
        guard isHeard, !connection.lies, format != .simple else { return 0 }
        return frames.count { $0.held.map { $0.isPresumed && !$0.isDelivered } ?? false }
    }

    func check(turn: Int) {}
}

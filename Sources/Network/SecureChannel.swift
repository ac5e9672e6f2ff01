package import EventLoop
internal import Glibc
package import TLS

/// A TCP connection with TLS on one loop, either dialed or accepted. Use it on the loop's thread only.
///
/// `send` encrypts TLS records of up to 16 KiB. The channel writes the records at the end of the turn in one system
/// call, or earlier whenever 64 KiB are ready. The channel keeps itself and its delegate alive until `channelClosed`.
/// Call `close` or `abort` before releasing the channel.
@safe package final class SecureChannel: TurnEnder {
    package enum State: Hashable, Sendable {
        /// Connecting, or in the TLS handshake.
        case opening
        case open
        /// `close` or `cut` was called. Queued bytes are still written, and received bytes are dropped.
        case closing
        case closed
    }

    package private(set) var state = State.opening
    package private(set) var peerAddress: SocketAddress?
    package var peerCertificate: CertificateDetails? { session?.peerCertificate }
    package var tlsVersion: String? { state == .open ? session?.version : nil }
    package var sentBytes: Int64 { output.sentBytes }
    package var writtenBytes: Int64 { output.writtenBytes }
    package var unacknowledgedBytes: Int { descriptor?.unacknowledgedBytes ?? 0 }
    /// If `room` falls below this number of bytes, the channel calls `channelWritable` when it has space again.
    package let lowRoom: Int

    private let loop: Loop
    private let options: ChannelOptions
    private var delegate: (any ByteChannelDelegate)?
    private var peerName: String

    private var attempt: DialAttempt?
    private var descriptor: Descriptor?
    private var registration: Registration?
    private var session: Session?
    /// The alarm for the deadline of the handshake, of `close`, or of reading after a failed write.
    private var alarm: Alarm?

    private var output: Output
    /// Whether the kernel accepts no more bytes until the socket is writable.
    private var isBlocked = false
    private var isReadingPaused = false
    private var wantsWritable = false
    private var isAskedToTurn = false
    private var writeFailure: Int32?
    private var hasEndedWriting = false
    private var end: ChannelEnd?

    /// The maximum plaintext size of a TLS record (RFC 8446, section 5.1).
    package static let recordLimit = 16_384
    /// The amount of ciphertext at which the channel writes without waiting for the turn's end, so that the peer can
    /// start to process it, and the buffer stays small.
    private static let writeThreshold = 64 * 1024
    /// How long a peer may keep its side open after this side has ended the stream or a write has failed.
    private static let lingerNs: Int64 = 1_000_000_000
    /// The maximum number of ciphertext bytes that messages of TLS (alerts, key updates) may add to the output. If a
    /// peer that does not read causes more, the connection is closed.
    private static let ownOutputLimit = 128 * 1024

    // MARK: Opening

    /// Starts to connect. `channelOpened` or `channelClosed` follows, after this call returns.
    package convenience init(
        dialing target: DialTarget, context: ClientContext, dialer: Dialer, loop: Loop,
        options: ChannelOptions = ChannelOptions(), delegate: any ByteChannelDelegate
    ) {
        self.init(name: target.text, loop: loop, options: options, delegate: delegate)
        attempt = dialer.dial(
            target, timeoutNs: options.dialTimeoutNs, userTimeoutMs: options.userTimeoutMs
        ) { [self] result in
            attempt = nil
            switch result {
            case .failure(let end): finish(end)
            case .success(let connected):
                peerName += " (\(target.proxy == nil ? "" : "through the proxy ")\(connected.address))"
                let limit = options.unsentLimit
                if limit > 0 { connected.descriptor.set(Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, limit) }
                shakeHands(connected) { () throws(TLSError) in try .client(context, hostName: target.host) }
            }
        }
    }

    /// Starts the TLS handshake of an accepted connection. `channelOpened` or `channelClosed` follows.
    package convenience init(
        accepted: TCPConnection, context: ServerContext, loop: Loop, options: ChannelOptions = ChannelOptions(),
        delegate: any ByteChannelDelegate
    ) {
        self.init(name: "client \(accepted.address)", loop: loop, options: options, delegate: delegate)
        accepted.descriptor.setConnectionOptions(userTimeoutMs: options.userTimeoutMs)
        shakeHands(accepted) { () throws(TLSError) in try .server(context) }
    }

    private init(name: String, loop: Loop, options: ChannelOptions, delegate: any ByteChannelDelegate) {
        loop.assertOnThread()
        peerName = name
        self.loop = loop
        self.options = options
        self.delegate = delegate
        output = Output(limit: options.outputLimit)
        lowRoom = min(2 * Self.recordLimit, options.outputLimit / 2)
        alarm = Alarm(loop: loop) { [weak self] in self?.timedOut() }
    }

    private func shakeHands(_ connection: TCPConnection, _ makeSession: () throws(TLSError) -> Session) {
        descriptor = connection.descriptor
        peerAddress = connection.address
        do {
            let session = try makeSession()
            self.session = session
            registration = try loop.register(connection.descriptor.raw, for: .readable) { [self] in ready($0) }
            alarm?.set(afterNs: options.handshakeTimeoutNs)
            // Creates the client's first message. A server has nothing to send yet.
            _ = try session.handshake()
            askToTurn()
        } catch let error as TLSError {
            failed(error)
        } catch {
            finish(ChannelEnd("\(peerName): \(error)"))
        }
    }

    // MARK: Sending

    package var room: Int { state == .open ? output.room : 0 }

    @discardableResult
    package func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        let room = room
        let taken = min(bytes.count, room)
        if room - taken < lowRoom || taken < bytes.count { wantsWritable = true }
        guard taken > 0, let session else { return 0 }
        askToTurn()
        do throws(TLSError) {
            for start in stride(from: 0, to: taken, by: Self.recordLimit) {
                let end = min(start + Self.recordLimit, taken)
                try unsafe output.encrypt(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), session)
                if output.pending >= Self.writeThreshold { flush() }
            }
        } catch {
            failed(error)
        }
        return taken
    }

    /// Writes the output now instead of at the end of the turn.
    package func flush() {
        guard let session, let descriptor, !isBlocked, writeFailure == nil else { return }
        while true {
            let ciphertext = unsafe output.pendingOutput(session)
            if unsafe ciphertext.isEmpty { break }
            switch unsafe descriptor.send(ciphertext) {
            case .bytes(let count):
                output.wrote(count, session)
                if output.pending > 0 { return block() }
            case .wouldBlock, .end: return block()
            case .failed(let code): return writeFailed(code)
            }
        }
        if state == .closing { drained() }
    }

    private func block() {
        isBlocked = true
        watch()
    }

    private func unblock() {
        guard isBlocked else { return }
        isBlocked = false
        watch()
        flush()
        tellWritable()
    }

    private func tellWritable() {
        guard wantsWritable, state == .open, room >= lowRoom else { return }
        wantsWritable = false
        delegate?.channelWritable()
    }

    /// Handles a failed write. An open channel continues to read, because the peer may have sent a reason before it
    /// closed (a GOAWAY or an error frame).
    private func writeFailed(_ code: Int32) {
        writeFailure = code
        if state == .open { alarm?.set(afterNs: Self.lingerNs) } else { lost(SystemError.text(code)) }
    }

    // MARK: Receiving

    /// Stops reading, so that TCP flow control stops the peer. Bytes that were already read are still delivered.
    package func pauseReading() {
        isReadingPaused = true
        watch()
    }

    package func resumeReading() {
        isReadingPaused = false
        watch()
    }

    private func watch() {
        guard let registration else { return }
        var events: Readiness = []
        if !isReadingPaused || state == .closing { events.insert(.readable) }
        if isBlocked { events.insert(.writable) }
        loop.update(registration, for: events)
    }

    private func ready(_ events: Readiness) {
        if events.contains(.writable) { unblock() }
        if events.needsRead { read() }
    }

    private func read() {
        guard let descriptor, let session else { return }
        let buffer = unsafe loop.scratch.raw
        switch unsafe descriptor.receive(into: buffer) {
        case .bytes(let count):
            if state == .closing { return }
            unsafe received(UnsafeRawBufferPointer(rebasing: buffer[..<count]), session)
        case .end: endOfStream()
        case .wouldBlock: return
        case .failed(let code): lost(SystemError.text(writeFailure ?? code))
        }
    }

    private func received(_ ciphertext: UnsafeRawBufferPointer, _ session: Session) {
        unsafe session.receive(ciphertext)
        do throws(TLSError) {
            if state == .opening {
                guard try session.handshake() else { return askToTurn() }
                opened(session)
            }
            try deliver(session)
        } catch {
            failed(error)
        }
        let pending = unsafe session.pendingOutput.count
        if pending > 0 { askToTurn() }
        if pending > options.outputLimit + Self.ownOutputLimit { lost("the peer stopped reading") }
    }

    private func opened(_ session: Session) {
        state = .open
        alarm?.clear()
        askToTurn()
        delegate?.channelOpened(applicationProtocol: session.applicationProtocol)
    }

    /// Decrypts all received ciphertext, and delivers the plaintext of many records in one call.
    private func deliver(_ session: Session) throws(TLSError) {
        let buffer = unsafe loop.scratch.cooked
        var filled = 0
        while state == .open {
            let result: Session.ReadResult
            do throws(TLSError) {
                result = try unsafe session.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]))
            } catch {
                unsafe handOver(buffer, &filled)
                throw error
            }
            if case .bytes(let count) = result {
                filled += count
                // Decrypt another record only if the buffer has space for a whole one.
                if buffer.count - filled >= Self.recordLimit { continue }
            }
            unsafe handOver(buffer, &filled)
            if result == .wantsMore { return }
            guard result == .closed, state == .open else { continue }
            session.closeNotify()
            flush()
            finish(ChannelEnd("\(peerName): closed by the peer", kind: .closedByPeer))
        }
    }

    private func handOver(_ buffer: UnsafeMutableRawBufferPointer, _ filled: inout Int) {
        guard filled > 0 else { return }
        let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<filled])
        filled = 0
        unsafe delegate?.channelReceived(bytes)
    }

    private func endOfStream() {
        switch state {
        case .opening: lost("the peer ended the connection during the TLS handshake")
        case .open where writeFailure == nil:
            var end = ChannelEnd("\(peerName): connection lost: the peer ended it without close_notify")
            end.isEndOfStream = true
            finish(end)
        case .open: lost(SystemError.text(writeFailure ?? 0))
        case .closing, .closed: finish(closedHere)
        }
    }

    // MARK: Closing

    package func close() { closeWriting(notify: true) }

    /// Ends the TCP stream after all queued bytes, without close_notify, as a crashing peer does. It simulates faults.
    package func cut() { closeWriting(notify: false) }

    package func abort() {
        loop.assertOnThread()
        finish(closedHere)
    }

    package func reset() {
        descriptor?.setResetOnClose()
        abort()
    }

    private var closedHere: ChannelEnd { ChannelEnd("\(peerName): closed", kind: .closedHere) }

    private func closeWriting(notify: Bool) {
        loop.assertOnThread()
        guard state == .open else {
            if state != .closing { finish(closedHere) }
            return
        }
        state = .closing
        if notify { session?.closeNotify() }
        alarm?.set(afterNs: options.closeTimeoutNs)
        watch()
        if writeFailure != nil { return finish(closedHere) }
        askToTurn()
    }

    /// Ends the stream after everything is written. The channel then drops what it receives: closing a socket with
    /// unread bytes would reset the connection, and the peer could lose bytes that it has not read.
    private func drained() {
        guard !hasEndedWriting else { return }
        hasEndedWriting = true
        if let descriptor { shutdown(descriptor.raw, Int32(SHUT_WR)) }
        alarm?.set(afterNs: min(Self.lingerNs, options.closeTimeoutNs))
    }

    private func timedOut() {
        switch state {
        case .opening:
            finish(ChannelEnd("\(peerName): the TLS handshake timed out"))
        case .open: lost(SystemError.text(writeFailure ?? ETIMEDOUT))
        case .closing, .closed: finish(closedHere)
        }
    }

    private func failed(_ error: TLSError) {
        // Sends the alert, if TLS has created one for the peer.
        flush()
        finish(
            ChannelEnd("\(peerName): \(error.text)", kind: error.isCertificateRefused ? .certificateRefused : .failed))
    }

    private func lost(_ why: String) {
        finish(state == .closing ? closedHere : ChannelEnd("\(peerName): connection lost: \(why)"))
    }

    private func finish(_ end: ChannelEnd) {
        guard self.end == nil else { return }
        self.end = end
        state = .closed
        attempt?.cancel()
        attempt = nil
        if let registration { loop.unregister(registration) }
        registration = nil
        alarm = nil
        descriptor = nil
        session = nil
        askToTurn()
    }

    // MARK: The turn's end

    private func askToTurn() {
        guard !isAskedToTurn else { return }
        isAskedToTurn = true
        loop.atTurnEnd(self)
    }

    package func turnEnded() {
        isAskedToTurn = false
        if let end {
            let delegate = self.delegate
            self.delegate = nil
            delegate?.channelClosed(end)
            return
        }
        flush()
        // Call `channelWritable` in the next turn, so that a fast peer cannot make this turn endless.
        if wantsWritable, !isBlocked, state == .open {
            loop.schedule(afterNs: 0) { [weak self] in self?.tellWritable() }
        }
    }
}

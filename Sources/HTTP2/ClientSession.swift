internal import CNghttp2

/// The client side of one HTTP/2 connection over nghttp2. It turns received bytes into events and bytes to send,
/// without I/O and without a clock.
///
/// Not thread-safe. Requests are never queued in nghttp2: `submit` writes or refuses a request immediately. After
/// `receive`, call `nextEvent` until it returns `nil`, and send the output.
@safe
package final class ClientSession {
    /// The version of the loaded nghttp2.
    package static var libraryVersion: String { unsafe String(cString: nghttp2_version(0).pointee.version_str) }

    /// An event on a client session's connection. `nextEvent` returns events in the order in which they occurred.
    /// `user` is the value passed to `submit`.
    package enum Event: BitwiseCopyable, Sendable, Equatable {
        /// A complete response, or the headers of a response with `bodilessStatus`. This is the last event of the
        /// stream. The headers and the body are valid until the next `nextEvent`.
        case response(user: UInt32, status: UInt16)
        /// The stream ended without a complete response. This is the last event of the stream. `status` is 0 if no
        /// final status arrived. The code `refusedStream` means that the peer never processed the request: it reset the
        /// stream, or sent a GOAWAY with a lower last stream id.
        case ended(user: UInt32, code: ErrorCode, status: UInt16)
        /// A body that waited for flow control is now completely in the output. `end` is the output position after its
        /// END_STREAM.
        case bodySent(user: UInt32, end: Int64)
        /// The peer sent GOAWAY, whose debug data is in `goAwayData`. For each open stream above `lastStreamID`,
        /// `ended` with the code `refusedStream` follows.
        case goAway(lastStreamID: Int32, code: ErrorCode)
        /// The peer's settings changed: check `isReady` and `freeStreams`.
        case settings
        /// The peer's acknowledgement of this client's PING.
        case pong
    }

    /// The result of submitting a request.
    package enum Submission: Sendable, Equatable {
        /// HEADERS and body are in the output. `end` is the output position after END_STREAM, counted as in
        /// `outputTotal`.
        case written(stream: Int32, end: Int64)
        /// HEADERS are in the output and the body waits for flow control. `bodySent` follows.
        case waiting(stream: Int32)
        /// Nothing was written, and no event follows.
        case refused
    }

    package struct Options: Sendable {
        /// The maximum number of concurrent streams, even if the peer allows more.
        static let streamLimit = 1_000
        /// The size of pending output, in bytes, at which `submit` refuses requests.
        package var outputLimit = 256 << 10
        /// The maximum size of a response's stored headers and body, in bytes. Further bytes are discarded.
        package var responseLimit = 4_096
        /// Response headers that can be stored, at most 4, in lower case. `submit` selects them per request.
        package var wantedHeaders: [StaticString] = []
        /// A status whose responses have no body. Their headers alone are a complete response, even if the peer never
        /// ends the stream. The default matches no status.
        package var bodilessStatus = UInt16.max
        /// Whether the session records the header of every frame for `takeFrameHeads`.
        package var tracesFrames = false
        /// Whether to index the `authorization` header (`AuthorizationIndexing`).
        package var indexAuthorization = true

        package init() {}
    }

    private let state: UnsafeMutablePointer<State>
    private let session: OpaquePointer
    private let options: Options

    package init(options: Options = Options()) throws(HTTP2Error) {
        precondition(options.wantedHeaders.count <= 4, "there must be at most 4 wanted headers")
        unsafe state = .allocate(capacity: 1)
        unsafe state.initialize(to: State(options: options))
        var raw: OpaquePointer?
        var memory = unsafe state.pointee.memory.callbacks()
        var option: OpaquePointer?
        unsafe nghttp2_option_new(&option)
        // Disable nghttp2's check of every byte of response headers, which is a tenth of a request's CPU cost. The
        // session uses only the status, which `setStatus` validates, and the few wanted headers.
        unsafe nghttp2_option_set_no_http_messaging(option, 1)
        // nghttp2 copies the callbacks, the option and the mem struct (nghttp2.h).
        let code = unsafe nghttp2_session_client_new3(
            &raw, options.tracesFrames ? Self.tracingCallbacks : Self.callbacks, state, option, &memory)
        precondition(code == 0, "out of memory: nghttp2 could not allocate a session")
        unsafe nghttp2_option_del(option)
        unsafe session = unsafe raw!
        self.options = options
        // SETTINGS of the connection preface (RFC 9113, 3.4), which disable server push.
        var entries = [nghttp2_settings_entry(settings_id: 2, value: 0)]
        _ = unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &entries, entries.count)
        try pump()
    }

    deinit {
        unsafe nghttp2_session_del(session)
        unsafe state.pointee.free()
        unsafe state.deinitialize(count: 1)
        unsafe state.deallocate()
    }

    // MARK: Requests

    /// Whether the peer's SETTINGS have arrived. Until then, `submit` refuses requests.
    package var isReady: Bool { unsafe state.pointee.isReady }

    /// The number of streams that the peer allows, up to `streamLimit`. 0 before the peer's SETTINGS have arrived.
    package var allowedStreams: Int { unsafe state.pointee.allowedStreams }

    package var openStreams: Int { unsafe state.pointee.openStreams }

    /// The number of streams that can be opened now. 0 after GOAWAY.
    package var freeStreams: Int {
        (unsafe state.pointee.isClosing) ? 0 : max(0, allowedStreams - openStreams)
    }

    /// How many body bytes the connection's flow-control window allows before the peer's next WINDOW_UPDATE.
    package var connectionWindow: Int { unsafe max(0, Int(nghttp2_session_get_remote_window_size(session))) }

    /// Returns whether the connection's window suffices for a request with this body size: the body fits, or enough of
    /// it fits to make the peer send WINDOW_UPDATE. If not, the request would delay later requests.
    package func hasWindow(for bodyCount: Int) -> Bool {
        let window = connectionWindow
        return unsafe window >= bodyCount || window >= state.pointee.untilHalf(window: window)
    }

    /// The id of the next stream, or 2^31 if no id is left (nghttp2.h).
    package var nextStreamID: UInt32 { unsafe nghttp2_session_get_next_stream_id(session) }

    /// Writes one request. Refuses it before the peer's SETTINGS have arrived, if no stream is free, if the output is
    /// full, and after GOAWAY. Throws if the session failed and cannot be used further.
    ///
    /// - Parameters:
    ///   - headers: The headers, borrowed for this call.
    ///   - body: The body, borrowed until the stream's last event, or `cancel`.
    ///   - user: A value that every event of this stream contains.
    ///   - keep: A bit mask. If bit n is set, the response header `wantedHeaders[n]` is stored.
    package func submit(
        _ headers: borrowing HeaderList, body: UnsafeRawBufferPointer, user: UInt32, keep: UInt8 = 0
    ) throws(HTTP2Error) -> Submission {
        guard isReady, freeStreams > 0, unsafe state.pointee.output.count < options.outputLimit else {
            return .refused
        }
        let slot = unsafe state.pointee.slots.take(StreamSlot())
        unsafe slot.pointee.user = user
        unsafe slot.pointee.keep = keep
        unsafe slot.pointee.body = body.baseAddress?.assumingMemoryBound(to: UInt8.self)
        unsafe slot.pointee.bodyLeft = body.count
        prepare(headers)
        var provider = unsafe nghttp2_data_provider(
            source: nghttp2_data_source(ptr: UnsafeMutableRawPointer(slot)), read_callback: Self.readBody)
        let stream: Int32
        if unsafe body.isEmpty {
            stream = unsafe nghttp2_submit_request(session, nil, headers.fields, headers.count, nil, slot)
        } else {
            stream = unsafe nghttp2_submit_request(session, nil, headers.fields, headers.count, &provider, slot)
        }
        guard stream > 0 else {
            unsafe state.pointee.giveBack(slot)
            if nghttp2_is_fatal(stream) != 0 { throw HTTP2Error(describe(stream)) }
            return .refused
        }
        unsafe state.pointee.foundStream = 0
        unsafe state.pointee.openStreams += 1
        try pump()
        if unsafe slot.pointee.flags.contains(.notSent) {
            unsafe state.pointee.openStreams -= 1
            unsafe state.pointee.giveBack(slot)
            return .refused
        }
        if unsafe body.isEmpty {
            unsafe slot.pointee.flags.insert(.endSent)
            unsafe state.pointee.lastEnd = outputTotal
        }
        unsafe slot.pointee.flags.insert(.submitted)
        return unsafe slot.pointee.flags.contains(.endSent)
            ? .written(stream: stream, end: state.pointee.lastEnd) : .waiting(stream: stream)
    }

    /// Resets a stream. No event follows for the stream, and its body is no longer read. The stream counts as open
    /// until the RST_STREAM is in the output.
    package func cancel(stream: Int32, code: ErrorCode = .cancel) throws(HTTP2Error) {
        guard let data = unsafe nghttp2_session_get_stream_user_data(session, stream) else { return }
        let slot = unsafe data.assumingMemoryBound(to: StreamSlot.self)
        unsafe slot.pointee.flags.insert(.settled)
        unsafe slot.pointee.body = nil
        _ = unsafe nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
        try pump()
    }

    /// Whether a later call of `resetUnended` may have to reset streams.
    package var hasUnended: Bool { unsafe !state.pointee.unended.isEmpty || !state.pointee.staleUnended.isEmpty }

    /// Resets the streams that the peer answered by their headers before the previous call and has not ended since.
    /// They count as open.
    ///
    /// Call this method once a second: a peer may end streams shortly after their headers, and may close the connection
    /// after a burst of RST_STREAM frames (CVE-2023-44487).
    package func resetUnended() throws(HTTP2Error) {
        for stream in unsafe state.pointee.staleUnended { try cancel(stream: stream) }
        unsafe state.pointee.staleUnended = unsafe state.pointee.unended
        unsafe state.pointee.unended.removeAll()
    }

    /// Sends a PING. `pong` follows when the peer has answered.
    package func ping() throws(HTTP2Error) {
        _ = unsafe nghttp2_submit_ping(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
        try pump()
    }

    /// Sends GOAWAY. After this call, `submit` refuses requests, and open streams continue.
    package func goAway(_ code: ErrorCode = .noError) throws(HTTP2Error) {
        unsafe state.pointee.isClosing = true
        _ = unsafe nghttp2_submit_goaway(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, code.rawValue, nil, 0)
        try pump()
    }

    // MARK: Bytes and events

    /// Processes bytes from the peer. The caller may reuse the bytes after the call. Throws if the session failed.
    /// After a protocol violation by the peer, `receive` usually does not throw: the output contains a GOAWAY, and
    /// `isFinished` becomes true.
    package func receive(_ bytes: UnsafeRawBufferPointer) throws(HTTP2Error) {
        guard unsafe !bytes.isEmpty else { return }
        let base = unsafe bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
        let taken = unsafe nghttp2_session_mem_recv(session, base, bytes.count)
        if taken < 0 { throw HTTP2Error(unsafe state.pointee.errorText ?? describe(Int32(taken))) }
        // The peer answered before the body was sent and does not need the rest of the body. Only a RST_STREAM from
        // this side frees the stream (RFC 9113, 8.1).
        while let stream = unsafe state.pointee.early.popFirst() {
            _ = unsafe nghttp2_submit_rst_stream(
                session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, ErrorCode.cancel.rawValue)
        }
        // Remove ended streams, so that the list does not grow to all streams answered within a second.
        if unsafe state.pointee.unended.count > 2 * allowedStreams {
            unsafe state.pointee.unended.removeAll {
                unsafe nghttp2_session_get_stream_user_data(session, $0) == nil
            }
        }
        // If the peer does not read, leave the acknowledgements of its PINGs and SETTINGS in nghttp2's queue. nghttp2
        // ends the session if the queue exceeds 1,000 acknowledgements.
        if unsafe state.pointee.output.count < options.outputLimit { try pump() }
    }

    /// Returns the oldest pending event. Data borrowed from the previous event becomes invalid.
    package func nextEvent() -> Event? {
        unsafe state.pointee.releaseCurrent()
        guard let next = unsafe state.pointee.sink.popFirst() else { return nil }
        unsafe state.pointee.current = unsafe next.slot
        return unsafe next.event
    }

    /// Returns the headers of the frames since the last call, or none without `tracesFrames`.
    package func takeFrameHeads() -> [FrameHead] {
        defer { unsafe state.pointee.frameHeads.removeAll() }
        return unsafe state.pointee.frameHeads
    }

    /// Returns the counts of the error codes that the peer has sent since the last call, or `nil` if there are none.
    package func takePeerErrors() -> PeerErrors? { unsafe state.pointee.peerErrors.take() }

    /// Returns a stored header of the response that `nextEvent` returned last, or an empty buffer if the response lacks
    /// it.
    package func responseHeader(_ index: Int) -> UnsafeRawBufferPointer {
        unsafe state.pointee.lent { slot in unsafe slot.pointee.headers[index] }
    }

    /// The body, complete or not, of the response that `nextEvent` returned last, up to `responseLimit` bytes.
    package var responseBody: UnsafeRawBufferPointer {
        unsafe state.pointee.lent { slot in unsafe slot.pointee.responseBody }
    }

    /// The debug data of the last GOAWAY, up to 1,024 bytes.
    package var goAwayData: [UInt8] { unsafe state.pointee.goAwayData }

    /// The bytes to send, valid until the next call.
    package var output: UnsafeRawBufferPointer { unsafe state.pointee.output.bytes }

    package var outputTotal: Int64 { unsafe state.pointee.output.total }

    /// Removes the first `count` bytes of `output`, which the caller has sent or copied.
    package func consumeOutput(_ count: Int) throws(HTTP2Error) {
        unsafe state.pointee.output.consume(count)
        if unsafe nghttp2_session_want_write(session) != 0 { try pump() }
    }

    /// Whether nothing more will be read or written. Close the connection once the output is sent.
    package var isFinished: Bool {
        unsafe nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
    }

    /// nghttp2's description of the peer's last error, for logs.
    package var errorText: String? { unsafe state.pointee.errorText }

    /// Moves nghttp2's pending frames into the output.
    private func pump() throws(HTTP2Error) {
        while true {
            var bytes: UnsafePointer<UInt8>?
            // The bytes are valid until the next call (nghttp2.h). Each call returns at most one frame.
            let count = unsafe nghttp2_session_mem_send(session, &bytes)
            if count == 0 { return }
            guard count > 0, let bytes = unsafe bytes else {
                throw HTTP2Error(unsafe state.pointee.errorText ?? describe(Int32(count)))
            }
            // A shorter frame cannot contain the credential as a literal, so it need not be searched.
            if unsafe count > state.pointee.credentialFrameMinimum {
                unsafe AuthorizationIndexing.append(bytes, count, to: &state.pointee.output)
            } else {
                unsafe state.pointee.output.append(bytes, count)
            }
        }
    }

    /// Selects the names that nghttp2 indexes on this connection, and sets the name of the credential field.
    private func prepare(_ headers: borrowing HeaderList) {
        unsafe headers.indexNames(&state.pointee.indexedNames)
        guard headers.credential >= 0 else { return }
        let field = unsafe headers.fields + headers.credential
        let name = options.indexAuthorization ? AuthorizationIndexing.standIn : AuthorizationIndexing.name
        unsafe field.pointee.name = unsafe UnsafeMutablePointer(mutating: name.utf8Start)
        // A Huffman code has at least 5 bits (RFC 7541, appendix B), so a frame that contains the credential as a
        // literal has at least 5/8 of the credential's length.
        unsafe state.pointee.credentialFrameMinimum =
            options.indexAuthorization ? field.pointee.valuelen * 5 / 8 : .max
    }
}

extension ClientSession {
    /// The state that a client session's callbacks use. It has a fixed address, so that callbacks access no Swift
    /// object.
    @unsafe
    struct State {
        /// A response header that a request can select for storing. The name is a static string.
        @safe
        struct Wanted: BitwiseCopyable {
            var name: UnsafePointer<UInt8>?
            var count = 0
        }

        let responseLimit: Int
        let bodilessStatus: UInt16
        let wanted: [4 of Wanted]
        /// A bit mask of the lengths of wanted names: bit n is set for a name of n bytes (modulo 64).
        let wantedLengths: UInt64
        let memory = unsafe MemoryPool()
        var slots = unsafe SlotPool<StreamSlot>()
        var output = unsafe OutputBuffer()
        /// The pending events, each with the slot whose bytes it borrows.
        var sink = unsafe EventSink<(event: Event, slot: UnsafeMutablePointer<StreamSlot>?)>()
        /// Streams that the peer answered before their body was sent completely.
        var early = EventSink<Int32>()
        /// Streams that were answered by their headers alone. The peer may have ended some of them since.
        var unended: [Int32] = []
        /// The streams that were in `unended` at the last call of `resetUnended`.
        var staleUnended: [Int32] = []
        var isReady = false
        var isClosing = false
        var allowedStreams = 0
        var openStreams = 0
        var indexedNames: UInt8 = 0
        var credentialFrameMinimum = Int.max
        /// The full size of the connection's flow-control window: 65,535 bytes (RFC 9113, 6.9.2), or more if the peer
        /// has raised it.
        var wholeWindow = 65_535
        /// The output position after the last END_STREAM.
        var lastEnd: Int64 = 0
        /// The slot whose bytes the current event borrows.
        var current: UnsafeMutablePointer<StreamSlot>?
        var goAwayData: [UInt8] = []
        var errorText: String?
        var frameHeads: [FrameHead] = []
        /// The error codes that the peer sent and `takePeerErrors` has not returned yet, or `nil` if there are none.
        var peerErrors: PeerErrors?

        /// The stream of the last lookup, cached because consecutive callbacks usually concern the same stream.
        var foundStream: Int32 = 0
        var foundSlot: UnsafeMutablePointer<StreamSlot>?

        init(options: Options) {
            unsafe responseLimit = options.responseLimit
            unsafe bodilessStatus = options.bodilessStatus
            var wanted = [4 of Wanted](repeating: Wanted())
            var lengths: UInt64 = 0
            for (index, name) in options.wantedHeaders.enumerated() {
                wanted[index] = unsafe Wanted(name: name.utf8Start, count: name.utf8CodeUnitCount)
                lengths |= 1 << UInt64(name.utf8CodeUnitCount & 63)
            }
            unsafe self.wanted = wanted
            unsafe wantedLengths = lengths
        }

        func free() {
            unsafe memory.free()
            unsafe slots.free { unsafe $0.pointee.kept.free() }
            unsafe output.free()
        }

        /// Returns how many body bytes remain until the next half of the peer's window is used up. `window` is the
        /// remaining window.
        ///
        /// A peer sends WINDOW_UPDATE once half of the window is used, and checks this only at the end of a DATA frame
        /// (nghttp2 does, and Apple's observed updates of 32,822 bytes suggest the same). If a frame crossed the half,
        /// less than half of the window would remain. That is too little to trigger the next WINDOW_UPDATE, so only
        /// half of the window could be used per round trip. Therefore end a frame exactly at each half.
        func untilHalf(window: Int) -> Int {
            let half = unsafe wholeWindow / 2
            return unsafe half - (wholeWindow - window) % half
        }

        /// Releases the bytes borrowed by the current event.
        mutating func releaseCurrent() {
            guard let slot = unsafe current else { return }
            unsafe current = nil
            unsafe slot.pointee.flags.remove(.eventPending)
            if unsafe slot.pointee.flags.contains(.closed) { unsafe giveBack(slot) }
        }

        mutating func giveBack(_ slot: UnsafeMutablePointer<StreamSlot>) {
            unsafe slot.pointee.reset()
            unsafe slots.give(slot)
        }

        func lent(_ range: (UnsafeMutablePointer<StreamSlot>) -> KeptRange) -> UnsafeRawBufferPointer {
            guard let slot = unsafe current else { return unsafe OutputBuffer.nothing }
            let place = unsafe range(slot)
            let end = Int(place.start + place.count)
            return unsafe UnsafeRawBufferPointer(rebasing: slot.pointee.kept.bytes[Int(place.start)..<end])
        }

        mutating func note(_ head: nghttp2_frame_hd, isSent: Bool) {
            unsafe frameHeads.append(
                FrameHead(
                    isSent: isSent, type: head.type, flags: head.flags, stream: head.stream_id, length: head.length))
        }

        mutating func countError(_ count: (inout PeerErrors) -> Void) {
            var errors = unsafe peerErrors.take() ?? PeerErrors()
            count(&errors)
            unsafe peerErrors = errors
        }

        mutating func append(_ event: Event) { unsafe sink.append((event, nil)) }

        /// Appends a stream's last event.
        mutating func settle(_ slot: UnsafeMutablePointer<StreamSlot>, _ event: Event) {
            unsafe slot.pointee.flags.formUnion([.settled, .eventPending])
            unsafe slot.pointee.body = nil
            unsafe sink.append((event, slot))
        }
    }
}

func describe(_ code: Int32) -> String { unsafe String(cString: nghttp2_strerror(code)) }

internal import CNghttp2

/// What a client session's peer did, in order. `user` is what `submit` was given.
package enum ClientSessionEvent: BitwiseCopyable, Sendable, Equatable {
    /// A complete response; its headers and body can be read until the next `nextEvent`. The last event of its stream.
    case response(user: UInt32, status: UInt16)
    /// The stream ended without a complete response; `status` is 0 when no final one came. The last event of its
    /// stream. `refusedStream` means never processed, whether the peer reset the stream or a GOAWAY was below it.
    case ended(user: UInt32, code: ErrorCode, status: UInt16)
    /// A body that had waited for flow control is in the output up to its END_STREAM, at this position of the output.
    case bodySent(user: UInt32, end: Int64)
    /// Streams above `lastStreamID` follow as `ended(refusedStream)`. `debugData` can be read until the next event.
    case goAway(lastStreamID: Int32, code: ErrorCode)
    /// The peer's settings changed: look at `isReady`, `freeStreams`.
    case settings
    /// The answer to a PING of this side.
    case pong
}

/// What became of a submitted request.
package enum Submission: Sendable, Equatable {
    /// HEADERS and body are in the output; END_STREAM ends at `end`, a position as `outputTotal` counts.
    case written(stream: Int32, end: Int64)
    /// HEADERS are in the output, the body waits for flow control; `bodySent` follows.
    case waiting(stream: Int32)
    /// Nothing was written, and no event follows.
    case refused
}

package struct ClientSessionOptions: Sendable {
    /// Never more streams than this, whatever the peer allows.
    static let streamLimit = 1_000
    /// No request is taken while this many bytes of output wait.
    package var outputLimit = 256 << 10
    /// Of a response's headers and body; the rest is dropped.
    package var responseLimit = 4_096
    /// Response headers that can be kept, at most 4, in lower case; `submit` says which of them it wants.
    package var wantedHeaders: [StaticString] = []
    /// Whether `takeFrameHeads` tells the frames that pass.
    package var tracesFrames = false
    /// See `AuthorizationIndexing`.
    package var indexAuthorization = true

    package init() {}
}

/// The client side of one HTTP/2 connection over nghttp2: bytes in, events and bytes out; no I/O, no clock.
///
/// One thread at a time. Nothing is ever queued inside nghttp2: a request is written or refused at once. After
/// `receive`, drain `nextEvent` until it is `nil`, and send the output.
@safe
package final class ClientSession {
    private let state: UnsafeMutablePointer<ClientState>
    private let session: OpaquePointer
    private let options: ClientSessionOptions

    package init(options: ClientSessionOptions = ClientSessionOptions()) throws(HTTP2Error) {
        precondition(options.wantedHeaders.count <= 4, "at most 4 wanted headers")
        unsafe state = .allocate(capacity: 1)
        unsafe state.initialize(to: ClientState(options: options))
        var raw: OpaquePointer?
        var memory = unsafe state.pointee.memory.callbacks()
        var option: OpaquePointer?
        unsafe nghttp2_option_new(&option)
        // Checks of every byte of every response header, a tenth of a request's cost; what they guard we look at
        // ourselves (`ClientCallbacks`): the status, and two headers of known form.
        unsafe nghttp2_option_set_no_http_messaging(option, 1)
        // nghttp2.h: the callbacks, the option and the mem struct are copied.
        let code = unsafe nghttp2_session_client_new3(
            &raw, options.tracesFrames ? ClientCallbacks.tracing : ClientCallbacks.shared, state, option, &memory)
        precondition(code == 0, "nghttp2: out of memory")
        unsafe nghttp2_option_del(option)
        unsafe session = unsafe raw!
        self.options = options
        // The connection preface; RFC 9113, 3.4. Pushes are never wanted.
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

    /// The peer's SETTINGS have come: before that nothing may be submitted.
    package var isReady: Bool { unsafe state.pointee.isReady }

    /// How many streams the peer allows, within `streamLimit`; 0 before its SETTINGS.
    package var allowedStreams: Int { unsafe state.pointee.allowedStreams }

    package var openStreams: Int { unsafe state.pointee.openStreams }

    /// How many requests can be submitted now.
    package var freeStreams: Int {
        (unsafe state.pointee.isClosing) ? 0 : max(0, allowedStreams - openStreams)
    }

    /// Body bytes that the whole connection can take before the peer's next WINDOW_UPDATE.
    package var connectionWindow: Int { unsafe max(0, Int(nghttp2_session_get_remote_window_size(session))) }

    /// Whether the connection's window is worth a request with so many body bytes: they all fit, or as many of them as
    /// make the peer give window back. Anything else would only hold up what is behind it.
    package func hasWindow(for bodyCount: Int) -> Bool {
        let window = connectionWindow
        return unsafe window >= bodyCount || window >= state.pointee.untilHalf(window: window)
    }

    /// The id the next stream will have; ids end at 2^31 - 1.
    package var nextStreamID: UInt32 { unsafe nghttp2_session_get_next_stream_id(session) }

    /// Writes one request, or refuses it: before the peer's SETTINGS, without a free stream, with the output full, and
    /// after GOAWAY. Throws when the session broke; then it is over.
    ///
    /// - Parameters:
    ///   - headers: lent for this call.
    ///   - body: lent until the stream's last event, or `cancel`.
    ///   - user: comes back with every event of this stream.
    ///   - keep: bit n keeps the n-th of `wantedHeaders` of the response.
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
            source: nghttp2_data_source(ptr: UnsafeMutableRawPointer(slot)), read_callback: ClientCallbacks.readBody)
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

    /// Resets a stream. No event about it follows, and its body is not read any more; its place stays taken until the
    /// RST_STREAM is in the output.
    package func cancel(stream: Int32, code: ErrorCode = .cancel) throws(HTTP2Error) {
        guard let data = unsafe nghttp2_session_get_stream_user_data(session, stream) else { return }
        let slot = unsafe data.assumingMemoryBound(to: StreamSlot.self)
        unsafe slot.pointee.flags.insert(.settled)
        unsafe slot.pointee.body = nil
        _ = unsafe nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
        try pump()
    }

    /// Sends a PING; `pong` follows.
    package func ping() throws(HTTP2Error) {
        _ = unsafe nghttp2_submit_ping(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
        try pump()
    }

    /// Says GOAWAY: nothing more is submitted; streams already open go on.
    package func goAway(_ code: ErrorCode = .noError) throws(HTTP2Error) {
        unsafe state.pointee.isClosing = true
        _ = unsafe nghttp2_submit_goaway(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, code.rawValue, nil, 0)
        try pump()
    }

    // MARK: Bytes and events

    /// Takes bytes of the peer, and copies what it keeps. Throws when the session broke beyond an answer. A peer that
    /// merely broke the protocol leads to a GOAWAY in the output and `isFinished`.
    package func receive(_ bytes: UnsafeRawBufferPointer) throws(HTTP2Error) {
        guard unsafe !bytes.isEmpty else { return }
        let base = unsafe bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
        let taken = unsafe nghttp2_session_mem_recv(session, base, bytes.count)
        if taken < 0 { throw HTTP2Error(unsafe state.pointee.errorText ?? describe(Int32(taken))) }
        // After an answer that came before the body was out, the peer wants no more of it, and only a RST_STREAM of
        // this side frees the stream (RFC 9113, 8.1).
        while let stream = unsafe state.pointee.early.popFirst() {
            _ = unsafe nghttp2_submit_rst_stream(
                session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, ErrorCode.cancel.rawValue)
        }
        // Acknowledgements wait in nghttp2 while the peer takes nothing; it refuses to hold more than 1,000.
        if unsafe state.pointee.output.count < options.outputLimit { try pump() }
    }

    /// The oldest event not taken yet; what the one before it lent is gone.
    package func nextEvent() -> ClientSessionEvent? {
        unsafe state.pointee.releaseCurrent()
        guard let next = unsafe state.pointee.sink.popFirst() else { return nil }
        unsafe state.pointee.current = unsafe next.slot
        return unsafe next.event
    }

    /// The frames that passed since the last call, if `tracesFrames` is set.
    package func takeFrameHeads() -> [FrameHead] {
        defer { unsafe state.pointee.frameHeads.removeAll() }
        return unsafe state.pointee.frameHeads
    }

    /// A kept header of the response that `nextEvent` returned last; empty when it did not come.
    package func responseHeader(_ index: Int) -> UnsafeRawBufferPointer {
        unsafe state.pointee.lent { slot in unsafe slot.pointee.headers[index] }
    }

    /// The body of the response, or what there was of it, that `nextEvent` returned last; at most `responseLimit`.
    package var responseBody: UnsafeRawBufferPointer {
        unsafe state.pointee.lent { slot in unsafe slot.pointee.responseBody }
    }

    /// What the last GOAWAY said besides its code, at most 1,024 bytes.
    package var goAwayData: [UInt8] { unsafe state.pointee.goAwayData }

    /// What waits to be sent; valid until the next call.
    package var output: UnsafeRawBufferPointer { unsafe state.pointee.output.bytes }

    package var outputTotal: Int64 { unsafe state.pointee.output.total }

    /// The first `count` bytes of `output` were sent (or copied elsewhere).
    package func consumeOutput(_ count: Int) throws(HTTP2Error) {
        unsafe state.pointee.output.consume(count)
        if unsafe nghttp2_session_want_write(session) != 0 { try pump() }
    }

    /// Nothing more will be read or written: close the connection once the output is out.
    package var isFinished: Bool {
        unsafe nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
    }

    /// What nghttp2 said about the peer's last error, for an operator's eyes.
    package var errorText: String? { unsafe state.pointee.errorText }

    /// Moves what nghttp2 has to say into the output.
    private func pump() throws(HTTP2Error) {
        while true {
            var bytes: UnsafePointer<UInt8>?
            // nghttp2.h: the bytes are valid until the next call; one call returns one frame.
            let count = unsafe nghttp2_session_mem_send(session, &bytes)
            if count == 0 { return }
            guard count > 0, let bytes = unsafe bytes else {
                throw HTTP2Error(unsafe state.pointee.errorText ?? describe(Int32(count)))
            }
            // Only a frame that spells the credential out can be that long.
            if unsafe count > state.pointee.credentialFrameMinimum {
                unsafe AuthorizationIndexing.append(bytes, count, to: &state.pointee.output)
            } else {
                unsafe state.pointee.output.append(bytes, count)
            }
        }
    }

    /// Sets what depends on this connection: names indexed once, the credential's stand-in.
    private func prepare(_ headers: borrowing HeaderList) {
        unsafe headers.indexNames(&state.pointee.indexedNames)
        guard headers.credential >= 0 else { return }
        let field = unsafe headers.fields + headers.credential
        let name = options.indexAuthorization ? AuthorizationIndexing.standIn : AuthorizationIndexing.name
        unsafe field.pointee.name = unsafe UnsafeMutablePointer(mutating: name.utf8Start)
        // Huffman codes have at least 5 bits.
        unsafe state.pointee.credentialFrameMinimum =
            options.indexAuthorization ? field.pointee.valuelen * 5 / 8 : .max
    }
}

func describe(_ code: Int32) -> String { unsafe String(cString: nghttp2_strerror(code)) }

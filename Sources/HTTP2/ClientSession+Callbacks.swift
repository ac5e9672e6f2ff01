internal import CNghttp2
import Glibc

// nghttp2 calls these functions on the session's thread, inside `mem_recv` and `mem_send`. They only write to the
// session's `State` and append to its sink.

private typealias StatePointer = UnsafeMutablePointer<ClientSession.State>
private typealias Frame = UnsafePointer<nghttp2_frame>
private typealias User = UnsafeMutableRawPointer

@inline(__always)
private func stateOf(_ user: User?) -> StatePointer { unsafe user!.assumingMemoryBound(to: ClientSession.State.self) }

/// Returns the slot of a stream, or `nil` if the client did not open the stream or the stream is closed.
@inline(__always)
private func slotOf(
    _ session: OpaquePointer?, _ stream: Int32, _ state: StatePointer
) -> UnsafeMutablePointer<ClientSession.StreamSlot>? {
    if unsafe state.pointee.foundStream == stream { return unsafe state.pointee.foundSlot }
    let slot = unsafe nghttp2_session_get_stream_user_data(session, stream)?.assumingMemoryBound(
        to: ClientSession.StreamSlot.self)
    unsafe state.pointee.foundStream = stream
    unsafe state.pointee.foundSlot = unsafe slot
    return unsafe slot
}

private func beginHeaders(_ session: OpaquePointer?, _ frame: Frame?, _ user: User?) -> Int32 {
    guard let slot = unsafe slotOf(session, frame!.pointee.hd.stream_id, stateOf(user)) else { return 0 }
    if unsafe slot.pointee.status >= 200 {
        unsafe slot.pointee.flags.insert(.trailersBegan)
    } else if unsafe slot.pointee.hasResponse {
        unsafe slot.pointee.forgetResponse()
    }
    return 0
}

private func header(
    _ session: OpaquePointer?, _ frame: Frame?, _ name: OpaquePointer?, _ value: OpaquePointer?, _ flags: UInt8,
    _ user: User?
) -> Int32 {
    let state = unsafe stateOf(user)
    let stream = unsafe frame!.pointee.hd.stream_id
    let field = unsafe nghttp2_rcbuf_get_buf(name)
    guard let text = unsafe field.base, unsafe field.len > 0 else { return 0 }
    if unsafe text[0] == UInt8(ascii: ":") {
        unsafe setStatus(session, stream, field, nghttp2_rcbuf_get_buf(value), state)
        return 0
    }
    guard unsafe state.pointee.wantedLengths & (1 << UInt64(field.len & 63)) != 0 else { return 0 }
    for index in 0..<4 {
        let wanted = unsafe state.pointee.wanted[index]
        guard unsafe wanted.count == field.len, unsafe memcmp(wanted.name!, text, field.len) == 0 else { continue }
        guard let slot = unsafe slotOf(session, stream, state),
            unsafe slot.pointee.keep & (1 << UInt8(index)) != 0,
            unsafe slot.pointee.flags.isDisjoint(with: [.bodyBegan, .trailersBegan])
        else { return 0 }
        let bytes = unsafe nghttp2_rcbuf_get_buf(value)
        guard let base = unsafe bytes.base else { return 0 }
        unsafe slot.pointee.headers[index] = unsafe slot.pointee.keepBytes(
            base, bytes.len, limit: state.pointee.responseLimit)
        return 0
    }
    return 0
}

/// Parses `:status`, the only pseudo-header of a response (RFC 9113, 8.3.2). An invalid value leaves the status at 0,
/// and the stream then ends with `protocolError`.
private func setStatus(
    _ session: OpaquePointer?, _ stream: Int32, _ name: nghttp2_vec, _ digits: nghttp2_vec, _ state: StatePointer
) {
    let expected: StaticString = ":status"
    guard unsafe name.len == 7, unsafe memcmp(name.base, expected.utf8Start, 7) == 0, unsafe digits.len == 3,
        let slot = unsafe slotOf(session, stream, state), unsafe slot.pointee.status == 0
    else { return }
    var status: UInt16 = 0
    for index in 0..<3 {
        let digit = unsafe digits.base[index] &- UInt8(ascii: "0")
        guard digit <= 9 else { return }
        status = status * 10 + UInt16(digit)
    }
    unsafe slot.pointee.status = status
}

private func dataChunk(
    _ session: OpaquePointer?, _ flags: UInt8, _ stream: Int32, _ bytes: UnsafePointer<UInt8>?, _ count: Int,
    _ user: User?
) -> Int32 {
    let state = unsafe stateOf(user)
    guard let slot = unsafe slotOf(session, stream, state), let bytes = unsafe bytes else { return 0 }
    let added = unsafe slot.pointee.keepBytes(bytes, count, limit: state.pointee.responseLimit)
    if unsafe !slot.pointee.flags.contains(.bodyBegan) {
        unsafe slot.pointee.flags.insert(.bodyBegan)
        unsafe slot.pointee.responseBody = added
    } else {
        unsafe slot.pointee.responseBody.count += added.count
    }
    return 0
}

private func frameReceived(_ session: OpaquePointer?, _ frame: Frame?, _ user: User?) -> Int32 {
    let state = unsafe stateOf(user)
    let head = unsafe frame!.pointee.hd
    switch UInt32(head.type) {
    case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
        let isEnd = head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
        guard let slot = unsafe slotOf(session, head.stream_id, state),
            unsafe isEnd || slot.pointee.status == state.pointee.bodilessStatus,
            unsafe !slot.pointee.flags.contains(.settled)
        else { return 0 }
        let bodyIsOut = unsafe slot.pointee.flags.contains(.endSent)
        let user = unsafe slot.pointee.user
        let status = unsafe slot.pointee.status
        // A response without a final status is malformed (RFC 9113, 8.1.1).
        unsafe state.pointee.settle(
            slot,
            status >= 200
                ? .response(user: user, status: status) : .ended(user: user, code: .protocolError, status: 0))
        if !bodyIsOut {
            unsafe state.pointee.early.append(head.stream_id)
        } else if !isEnd {
            unsafe state.pointee.unended.append(head.stream_id)
        }
    case NGHTTP2_SETTINGS.rawValue:
        guard head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0 else { return 0 }
        unsafe state.pointee.isReady = true
        let streams = unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        unsafe state.pointee.allowedStreams = min(Int(streams), ClientSession.Options.streamLimit)
        unsafe state.pointee.append(.settings)
    case NGHTTP2_WINDOW_UPDATE.rawValue:
        let window = unsafe Int(nghttp2_session_get_remote_window_size(session))
        unsafe state.pointee.wholeWindow = unsafe max(window, state.pointee.wholeWindow)
    case NGHTTP2_GOAWAY.rawValue:
        let goAway = unsafe frame!.pointee.goaway
        unsafe state.pointee.isClosing = true
        unsafe state.pointee.goAwayData = unsafe Array(
            UnsafeBufferPointer(start: goAway.opaque_data, count: min(goAway.opaque_data_len, 1_024)))
        let code = unsafe ErrorCode(rawValue: goAway.error_code)
        unsafe state.pointee.countError { $0.goAways[code.label] += 1 }
        unsafe state.pointee.append(.goAway(lastStreamID: goAway.last_stream_id, code: code))
    case NGHTTP2_RST_STREAM.rawValue:
        let code = unsafe ErrorCode(rawValue: frame!.pointee.rst_stream.error_code)
        unsafe state.pointee.countError { $0.resets[code.label] += 1 }
    case NGHTTP2_PING.rawValue where head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0:
        unsafe state.pointee.append(.pong)
    default: break
    }
    return 0
}

private func streamClosed(_ session: OpaquePointer?, _ stream: Int32, _ code: UInt32, _ user: User?) -> Int32 {
    let state = unsafe stateOf(user)
    guard let slot = unsafe slotOf(session, stream, state) else { return 0 }
    unsafe state.pointee.foundStream = 0
    // `submit` is still using the slot and releases it.
    if unsafe slot.pointee.flags.contains(.notSent) { return 0 }
    unsafe state.pointee.openStreams -= 1
    unsafe slot.pointee.flags.insert(.closed)
    if unsafe !slot.pointee.flags.contains(.settled) {
        // If only an interim response (1xx) arrived, report status 0, because there is no final status.
        let status = unsafe slot.pointee.status < 200 ? 0 : slot.pointee.status
        unsafe state.pointee.settle(
            slot, .ended(user: slot.pointee.user, code: ErrorCode(rawValue: code), status: status))
    } else if unsafe !slot.pointee.flags.contains(.eventPending) {
        unsafe state.pointee.giveBack(slot)
    }
    return 0
}

private func notSent(_ session: OpaquePointer?, _ frame: Frame?, _ error: Int32, _ user: User?) -> Int32 {
    if unsafe UInt32(frame!.pointee.hd.type) == NGHTTP2_HEADERS.rawValue,
        let slot = unsafe slotOf(session, frame!.pointee.hd.stream_id, stateOf(user))
    {
        unsafe slot.pointee.flags.insert(.notSent)
    }
    return 0
}

private func sendData(
    _ session: OpaquePointer?, _ frame: UnsafeMutablePointer<nghttp2_frame>?, _ head: UnsafePointer<UInt8>?,
    _ count: Int, _ source: UnsafeMutablePointer<nghttp2_data_source>?, _ user: User?
) -> Int32 {
    let state = unsafe stateOf(user)
    let slot = unsafe source!.pointee.ptr.assumingMemoryBound(to: ClientSession.StreamSlot.self)
    guard let body = unsafe slot.pointee.body else { return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue }
    let place = unsafe state.pointee.output.reserve(9 + count)
    unsafe memcpy(place, head!, 9)
    unsafe memcpy(place + 9, body, count)
    unsafe state.pointee.output.advance(9 + count)
    unsafe slot.pointee.body = unsafe body + count
    unsafe slot.pointee.bodyLeft -= count
    if unsafe slot.pointee.bodyLeft == 0 {
        unsafe slot.pointee.flags.insert(.endSent)
        unsafe state.pointee.lastEnd = unsafe state.pointee.output.total
        if unsafe slot.pointee.flags.contains(.submitted) {
            unsafe state.pointee.append(.bodySent(user: slot.pointee.user, end: state.pointee.lastEnd))
        }
    }
    return 0
}

/// Creates an empty table of callbacks.
func makeCallbacks() -> OpaquePointer {
    var callbacks: OpaquePointer?
    let code = unsafe nghttp2_session_callbacks_new(&callbacks)
    precondition(code == 0, "out of memory: nghttp2 could not allocate its callbacks")
    return unsafe callbacks!
}

extension ClientSession {
    /// The callbacks shared by all client sessions without `tracesFrames`. Never freed.
    nonisolated(unsafe) static let callbacks: OpaquePointer = unsafe make()

    /// The callbacks of `callbacks`, plus callbacks that record each frame in `State.frameHeads`. The table is
    /// separate, because unused callbacks would cost time for each frame of every connection.
    nonisolated(unsafe) static let tracingCallbacks: OpaquePointer = {
        let callbacks = unsafe make()
        unsafe nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, head, user in
            unsafe stateOf(user).pointee.note(head!.pointee, isSent: false)
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
            unsafe stateOf(user).pointee.note(frame!.pointee.hd, isSent: true)
            return 0
        }
        return unsafe callbacks
    }()

    private static let make: @Sendable () -> OpaquePointer = {
        let callbacks = unsafe makeCallbacks()
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, beginHeaders)
        unsafe nghttp2_session_callbacks_set_on_header_callback2(callbacks, header)
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, dataChunk)
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameReceived)
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
        unsafe nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, notSent)
        unsafe nghttp2_session_callbacks_set_send_data_callback(callbacks, sendData)
        unsafe nghttp2_session_callbacks_set_error_callback2(callbacks) { _, _, text, count, user in
            let bytes = unsafe UnsafeRawBufferPointer(start: text, count: min(count, 200))
            unsafe stateOf(user).pointee.errorText = unsafe String(decoding: bytes, as: UTF8.self)
            return 0
        }
        return unsafe callbacks
    }

    /// Returns the number of body bytes for the next DATA frame. `sendData` then copies these bytes directly to the
    /// output.
    static let readBody: nghttp2_data_source_read_callback = { session, _, _, length, flags, source, user in
        let slot = unsafe source!.pointee.ptr.assumingMemoryBound(to: StreamSlot.self)
        // The stream was answered or cancelled, so the body may no longer be valid. A RST_STREAM is pending.
        guard unsafe slot.pointee.body != nil else { return Int(NGHTTP2_ERR_DEFERRED.rawValue) }
        let window = unsafe Int(nghttp2_session_get_remote_window_size(session))
        let count = unsafe min(length, slot.pointee.bodyLeft, stateOf(user).pointee.untilHalf(window: window))
        unsafe flags!.pointee |= NGHTTP2_DATA_FLAG_NO_COPY.rawValue
        if unsafe count == slot.pointee.bodyLeft { unsafe flags!.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
        return count
    }

    /// The position of a stored header value, or of the stored body, in `StreamSlot.kept`.
    struct KeptRange {
        var start: UInt32 = 0
        var count: UInt32 = 0
    }

    /// The state of one stream in a client session.
    @unsafe
    struct StreamSlot {
        struct Flags: OptionSet {
            let rawValue: UInt8
            /// The stream's last event, queued or current, borrows the slot's bytes.
            static let eventPending = Flags(rawValue: 1)
            static let closed = Flags(rawValue: 2)
            /// The stream's last event was queued, or the stream was cancelled, so no further event follows.
            static let settled = Flags(rawValue: 4)
            static let endSent = Flags(rawValue: 8)
            /// `submit` has returned, so later progress of the body is reported by events.
            static let submitted = Flags(rawValue: 16)
            /// nghttp2 never wrote the HEADERS.
            static let notSent = Flags(rawValue: 32)
            /// Body bytes have arrived, so further headers are trailers.
            static let bodyBegan = Flags(rawValue: 64)
            /// Another HEADERS frame has begun after the one with the final status.
            static let trailersBegan = Flags(rawValue: 128)
        }

        var user: UInt32 = 0
        var status: UInt16 = 0
        var flags: Flags = []
        /// A bit mask. If bit n is set, the response header `wantedHeaders[n]` is stored.
        var keep: UInt8 = 0
        var body: UnsafePointer<UInt8>?
        var bodyLeft = 0
        /// The stored headers and body of the response.
        var kept = unsafe OutputBuffer()
        var headers: [4 of KeptRange] = .init(repeating: KeptRange())
        var responseBody = KeptRange()

        /// Appends `bytes` to `kept` as far as `limit` permits, and returns the position of the copy.
        mutating func keepBytes(_ bytes: UnsafePointer<UInt8>, _ count: Int, limit: Int) -> KeptRange {
            let start = unsafe kept.count
            let taken = max(0, min(count, limit - start))
            unsafe kept.append(UnsafeRawBufferPointer(start: bytes, count: taken))
            return KeptRange(start: UInt32(start), count: UInt32(taken))
        }

        var hasResponse: Bool { unsafe status != 0 || kept.count != 0 || flags.contains(.bodyBegan) }

        /// Discards the stored status, headers and body, for example those of an interim response (1xx).
        mutating func forgetResponse() {
            unsafe status = 0
            unsafe flags.remove(.bodyBegan)
            unsafe kept.removeAll()
            for index in 0..<4 { unsafe headers[index] = KeptRange() }
            unsafe responseBody = KeptRange()
        }

        mutating func reset() {
            unsafe forgetResponse()
            unsafe flags = []
            unsafe body = nil
            unsafe bodyLeft = 0
        }
    }
}

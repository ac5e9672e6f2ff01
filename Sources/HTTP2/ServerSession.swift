internal import CNghttp2

/// The server side of one HTTP/2 connection over nghttp2. It turns received bytes into events and bytes to send,
/// without I/O and without a clock.
///
/// Not thread-safe. After `receive`, call `nextEvent` until it returns `nil`, answer the requests, and send the output.
@safe
package final class ServerSession {
    /// An event on a server session's connection. `nextEvent` returns events in the order in which they occurred.
    package enum Event: BitwiseCopyable, Sendable, Equatable {
        /// A complete request, readable until the next `nextEvent`. Answer it at any time with `respond` and this
        /// stream id, or never.
        case request(stream: Int32)
        /// A stream ended unanswered or with an error code: either side reset it, or the server sent GOAWAY.
        case closed(stream: Int32, code: ErrorCode)
        /// The client sent GOAWAY, because it is closing the connection.
        case goAway(code: ErrorCode)
        /// SETTINGS of the client, or the client's acknowledgement of the server's SETTINGS.
        case settings(isAcknowledgement: Bool)
    }

    package struct Options: Sendable {
        /// The first SETTINGS to send. The default values were observed from APNs.
        package var settings: [Setting] = [
            .headerTableSize(4_096), .maxConcurrentStreams(1_000), .initialWindowSize(65_535), .maxFrameSize(16_384),
            .maxHeaderListSize(8_000),
        ]
        /// The connection's receive window in bytes, at least 65,535 (RFC 9113).
        package var connectionWindow: Int32 = 65_535
        /// The maximum size of a request's stored headers and body, in bytes. Headers that do not fit are discarded,
        /// and further body bytes are only counted.
        package var requestLimit = 64 << 10
        /// Whether `setStalled` can stop window updates. This costs a little time for each DATA frame.
        package var canStall = false

        package init() {}
    }

    private let state: UnsafeMutablePointer<State>
    private let session: OpaquePointer

    package init(options: Options = Options()) throws(HTTP2Error) {
        unsafe state = .allocate(capacity: 1)
        unsafe state.initialize(to: State(options: options))
        var raw: OpaquePointer?
        var option: OpaquePointer?
        unsafe nghttp2_option_new(&option)
        unsafe nghttp2_option_set_no_auto_window_update(option, options.canStall ? 1 : 0)
        // nghttp2 copies the callbacks and the option (nghttp2.h).
        let code = unsafe nghttp2_session_server_new2(&raw, Self.callbacks, state, option)
        precondition(code == 0, "out of memory: nghttp2 could not allocate a session")
        unsafe nghttp2_option_del(option)
        unsafe session = unsafe raw!
        try changeSettings(options.settings)
        if options.connectionWindow > 65_535 {
            _ = unsafe nghttp2_session_set_local_window_size(session, 0, 0, options.connectionWindow)
            try pump()
        }
    }

    deinit {
        unsafe nghttp2_session_del(session)
        unsafe state.pointee.free()
        unsafe state.deinitialize(count: 1)
        unsafe state.deallocate()
    }

    // MARK: The request of the last event

    package var headerCount: Int { unsafe state.pointee.current.map { unsafe $0.pointee.headers.count } ?? 0 }

    /// Returns one header of the current request. `index` counts the headers in the order received. Valid until the
    /// next `nextEvent`.
    package func header(_ index: Int) -> (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        precondition(index >= 0 && index < headerCount, "the index must be below headerCount")
        let slot = unsafe state.pointee.current!
        let span = unsafe slot.pointee.headers[index]
        let value = span.start + span.nameCount
        let bytes = unsafe slot.pointee.bytes.bytes
        return unsafe (
            UnsafeRawBufferPointer(rebasing: bytes[span.start..<value]),
            UnsafeRawBufferPointer(rebasing: bytes[value..<value + span.valueCount])
        )
    }

    /// The request's body, up to `requestLimit`, valid until the next `nextEvent`.
    package var body: UnsafeRawBufferPointer {
        guard let slot = unsafe state.pointee.current else { return unsafe OutputBuffer.nothing }
        return unsafe UnsafeRawBufferPointer(rebasing: slot.pointee.bytes.bytes[slot.pointee.headersEnd...])
    }

    /// The number of received body bytes, including discarded ones.
    package var bodyLength: Int { unsafe state.pointee.current.map { unsafe $0.pointee.bodyLength } ?? 0 }

    // MARK: Answers

    /// Answers a stream. Returns `false` if the stream is closed or already answered. `headers` (`:status` first) are
    /// borrowed for this call, and the body is copied. With `isEnd` false, the response remains unfinished.
    @discardableResult
    package func respond(
        stream: Int32, _ headers: borrowing HeaderList, body: UnsafeRawBufferPointer, isEnd: Bool = true
    ) throws(HTTP2Error) -> Bool {
        guard let slot = unsafe Self.slot(session, stream), unsafe !slot.pointee.isAnswered else {
            return false
        }
        unsafe headers.indexNames(&state.pointee.indexedNames)
        unsafe slot.pointee.isAnswered = true
        var code: Int32
        if unsafe body.isEmpty && isEnd {
            code = unsafe nghttp2_submit_response(session, stream, headers.fields, headers.count, nil)
        } else {
            unsafe slot.pointee.isEnd = isEnd
            unsafe slot.pointee.response.append(body)
            var provider = unsafe nghttp2_data_provider(
                source: nghttp2_data_source(ptr: UnsafeMutableRawPointer(slot)),
                read_callback: Self.readBody)
            code = unsafe nghttp2_submit_response(session, stream, headers.fields, headers.count, &provider)
        }
        if nghttp2_is_fatal(code) != 0 { throw HTTP2Error(describe(code)) }
        try pump()
        return code == 0
    }

    /// Resets a stream. `closed` follows if the stream was not answered or the code is not `noError`.
    package func reset(stream: Int32, _ code: ErrorCode) throws(HTTP2Error) {
        _ = unsafe nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
        try pump()
    }

    package func changeSettings(_ settings: [Setting]) throws(HTTP2Error) {
        let entries = settings.map { nghttp2_settings_entry(settings_id: Int32($0.id), value: $0.value) }
        _ = unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count)
        try pump()
    }

    /// Sends GOAWAY. `closed` follows for open streams above `lastStreamID`. A later GOAWAY can only lower this id.
    package func goAway(lastStreamID: Int32, _ code: ErrorCode, _ debugData: [UInt8] = []) throws(HTTP2Error) {
        _ = unsafe nghttp2_submit_goaway(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), lastStreamID, code.rawValue, debugData, debugData.count)
        try pump()
    }

    /// Sends the first GOAWAY of a graceful shutdown, with the largest last stream id and NO_ERROR.
    package func shutdownNotice() throws(HTTP2Error) {
        _ = unsafe nghttp2_submit_shutdown_notice(session)
        try pump()
    }

    /// The id of the client's last stream that nghttp2 has processed, for `goAway`.
    package var lastStreamID: Int32 { unsafe nghttp2_session_get_last_proc_stream_id(session) }

    /// Stops or resumes window updates (only with `canStall`). Without window updates, the client cannot send large
    /// bodies completely.
    package func setStalled(_ isStalled: Bool) throws(HTTP2Error) {
        unsafe state.pointee.isStalled = isStalled
        guard !isStalled else { return }
        let owed = unsafe state.pointee.unconsumed
        unsafe state.pointee.unconsumed = 0
        _ = unsafe nghttp2_session_consume_connection(session, owed)
        for index in unsafe state.pointee.slots.all.indices {
            let slot = unsafe state.pointee.slots.all[index]
            guard unsafe slot.pointee.unconsumed > 0, unsafe !slot.pointee.isClosed else { continue }
            _ = unsafe nghttp2_session_consume_stream(session, slot.pointee.streamID, slot.pointee.unconsumed)
            unsafe slot.pointee.unconsumed = 0
        }
        try pump()
    }

    /// Appends bytes that nghttp2 did not create to the output, to inject faults.
    package func appendRaw(_ bytes: [UInt8]) {
        unsafe bytes.withUnsafeBytes { unsafe state.pointee.output.append($0) }
    }

    // MARK: Bytes and events

    /// Processes bytes from the peer. The caller may reuse the bytes after the call. Throws if the session failed.
    package func receive(_ bytes: UnsafeRawBufferPointer) throws(HTTP2Error) {
        guard unsafe !bytes.isEmpty else { return }
        let base = unsafe bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
        let taken = unsafe nghttp2_session_mem_recv(session, base, bytes.count)
        if taken < 0 { throw HTTP2Error(describe(Int32(taken))) }
        try pump()
    }

    /// Returns the oldest pending event. Data borrowed from the previous event becomes invalid.
    package func nextEvent() -> Event? {
        unsafe state.pointee.releaseCurrent()
        guard let next = unsafe state.pointee.sink.popFirst() else { return nil }
        unsafe state.pointee.current = unsafe next.slot
        return unsafe next.event
    }

    /// The bytes to send, valid until the next call.
    package var output: UnsafeRawBufferPointer { unsafe state.pointee.output.bytes }

    package var outputTotal: Int64 { unsafe state.pointee.output.total }

    /// Removes the first `count` bytes of `output`, which the caller has sent or copied.
    package func consumeOutput(_ count: Int) { unsafe state.pointee.output.consume(count) }

    /// Whether nothing more will be read or written. Close the connection once the output is sent.
    package var isFinished: Bool {
        unsafe nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
    }

    private func pump() throws(HTTP2Error) {
        while true {
            var bytes: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(session, &bytes)
            if count == 0 { return }
            guard count > 0, let bytes = unsafe bytes else { throw HTTP2Error(describe(Int32(count))) }
            unsafe state.pointee.output.append(bytes, count)
        }
    }
}

extension ServerSession {
    /// The state that a server session's callbacks use. It has a fixed address, because nghttp2 passes its pointer to
    /// the callbacks.
    @unsafe
    struct State {
        let options: Options
        var output = unsafe OutputBuffer()
        /// The pending events, each with the slot whose bytes it borrows.
        var sink = unsafe EventSink<(event: Event, slot: UnsafeMutablePointer<RequestSlot>?)>()
        var slots = unsafe SlotPool<RequestSlot>()
        /// The slot whose bytes the current event borrows.
        var current: UnsafeMutablePointer<RequestSlot>?
        var indexedNames: UInt8 = 0
        var isStalled = false
        /// The number of body bytes received while the session was stalled, for which the server has sent no
        /// WINDOW_UPDATE on the connection yet.
        var unconsumed = 0

        init(options: Options) { unsafe self.options = options }

        func free() {
            unsafe output.free()
            unsafe slots.free { unsafe $0.pointee.free() }
        }

        mutating func append(_ event: Event, _ slot: UnsafeMutablePointer<RequestSlot>? = nil) {
            unsafe slot?.pointee.pendingEvents += 1
            unsafe sink.append((event, slot))
        }

        /// Releases the bytes borrowed by the current event.
        mutating func releaseCurrent() {
            guard let slot = unsafe current else { return }
            unsafe current = nil
            unsafe slot.pointee.pendingEvents -= 1
            unsafe giveBackIfDone(slot)
        }

        mutating func giveBackIfDone(_ slot: UnsafeMutablePointer<RequestSlot>) {
            guard unsafe slot.pointee.isClosed && slot.pointee.pendingEvents == 0 else { return }
            unsafe slot.pointee.free()
            unsafe slot.pointee = unsafe RequestSlot()
            unsafe slots.give(slot)
        }
    }
}

internal import CNghttp2

// nghttp2 calls these functions on the session's thread. They only write to the session's `State` and its sink.

private typealias StatePointer = UnsafeMutablePointer<ServerSession.State>

@inline(__always)
private func stateOf(_ user: UnsafeMutableRawPointer?) -> StatePointer {
    unsafe user!.assumingMemoryBound(to: ServerSession.State.self)
}

extension ServerSession {
    /// Returns the slot of a stream, or `nil` if the stream is closed.
    static func slot(_ session: OpaquePointer?, _ stream: Int32) -> UnsafeMutablePointer<RequestSlot>? {
        unsafe nghttp2_session_get_stream_user_data(session, stream)?.assumingMemoryBound(to: RequestSlot.self)
    }

    /// The callbacks shared by all server sessions. Never freed.
    nonisolated(unsafe) static let callbacks: OpaquePointer = {
        let callbacks = unsafe makeCallbacks()
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { session, frame, user in
            guard unsafe frame!.pointee.headers.cat == NGHTTP2_HCAT_REQUEST else { return 0 }
            let stream = unsafe frame!.pointee.hd.stream_id
            let slot = unsafe stateOf(user).pointee.slots.take(RequestSlot())
            unsafe slot.pointee.streamID = stream
            _ = unsafe nghttp2_session_set_stream_user_data(session, stream, slot)
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_header_callback2(callbacks) { session, frame, name, value, _, user in
            // Trailers are ignored.
            guard unsafe frame!.pointee.headers.cat == NGHTTP2_HCAT_REQUEST,
                let slot = unsafe slot(session, frame!.pointee.hd.stream_id)
            else { return 0 }
            let name = unsafe nghttp2_rcbuf_get_buf(name)
            let value = unsafe nghttp2_rcbuf_get_buf(value)
            guard let nameBase = unsafe name.base, let valueBase = unsafe value.base else { return 0 }
            unsafe slot.pointee.addHeader(
                nameBase, name.len, valueBase, value.len, limit: stateOf(user).pointee.options.requestLimit)
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            session, _, stream, bytes, count, user in
            let state = unsafe stateOf(user)
            if let slot = unsafe slot(session, stream), let bytes = unsafe bytes {
                unsafe slot.pointee.addBody(bytes, count, limit: state.pointee.options.requestLimit)
            }
            if unsafe state.pointee.options.canStall {
                if unsafe state.pointee.isStalled {
                    unsafe state.pointee.unconsumed += count
                    if let slot = unsafe slot(session, stream) { unsafe slot.pointee.unconsumed += count }
                } else {
                    _ = unsafe nghttp2_session_consume(session, stream, count)
                }
            }
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { session, frame, user in
            let state = unsafe stateOf(user)
            let head = unsafe frame!.pointee.hd
            switch UInt32(head.type) {
            case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
                guard head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0 else { return 0 }
                if let slot = unsafe slot(session, head.stream_id) {
                    unsafe state.pointee.append(.request(stream: head.stream_id), slot)
                }
            case NGHTTP2_SETTINGS.rawValue:
                let isAcknowledgement = head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0
                unsafe state.pointee.append(.settings(isAcknowledgement: isAcknowledgement))
            case NGHTTP2_GOAWAY.rawValue:
                unsafe state.pointee.append(.goAway(code: ErrorCode(rawValue: frame!.pointee.goaway.error_code)))
            default: break
            }
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { session, stream, code, user in
            guard let slot = unsafe slot(session, stream) else { return 0 }
            let state = unsafe stateOf(user)
            unsafe slot.pointee.isClosed = true
            if unsafe !slot.pointee.isAnswered || code != 0 {
                unsafe state.pointee.append(.closed(stream: stream, code: ErrorCode(rawValue: code)))
            }
            unsafe state.pointee.giveBackIfDone(slot)
            return 0
        }
        return unsafe callbacks
    }()

    static let readBody: nghttp2_data_source_read_callback = { _, _, into, length, flags, source, _ in
        let slot = unsafe source!.pointee.ptr.assumingMemoryBound(to: RequestSlot.self)
        let left = unsafe slot.pointee.response.count
        let count = min(length, left)
        if count > 0 {
            unsafe UnsafeMutableRawPointer(into!).copyMemory(from: slot.pointee.response.base!, byteCount: count)
            unsafe slot.pointee.response.consume(count)
        }
        if count == left {
            if unsafe slot.pointee.isEnd {
                unsafe flags!.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
            } else if count == 0 {
                return Int(NGHTTP2_ERR_DEFERRED.rawValue)
            }
        }
        return count
    }

    /// The position of a header in a request's bytes: the name, then the value.
    struct HeaderSpan {
        var start: Int
        var nameCount: Int
        var valueCount: Int
    }

    /// The state of one stream in a server session, with the request's bytes and the unsent part of the response's
    /// body.
    @unsafe
    struct RequestSlot {
        var streamID: Int32 = 0
        var isAnswered = false
        var isClosed = false
        /// The number of events, queued or current, that borrow this slot's bytes.
        var pendingEvents = 0
        var isEnd = true
        /// The number of body bytes received while the session was stalled, for which the server has sent no
        /// WINDOW_UPDATE on the stream yet.
        var unconsumed = 0

        var bytes = unsafe OutputBuffer()
        var headersEnd = 0
        var bodyLength = 0
        private(set) var headers: [HeaderSpan] = []
        var response = unsafe OutputBuffer()

        func free() {
            unsafe bytes.free()
            unsafe response.free()
        }

        /// Stores a request header, unless the request already has 64 or the header does not fit into `limit` bytes.
        mutating func addHeader(
            _ name: UnsafePointer<UInt8>, _ nameCount: Int, _ value: UnsafePointer<UInt8>, _ valueCount: Int, limit: Int
        ) {
            guard unsafe headers.count < 64, unsafe bytes.count + nameCount + valueCount <= limit else { return }
            unsafe headers.append(HeaderSpan(start: bytes.count, nameCount: nameCount, valueCount: valueCount))
            unsafe bytes.append(UnsafeRawBufferPointer(start: name, count: nameCount))
            unsafe bytes.append(UnsafeRawBufferPointer(start: value, count: valueCount))
            unsafe headersEnd = bytes.count
        }

        mutating func addBody(_ body: UnsafePointer<UInt8>, _ size: Int, limit: Int) {
            unsafe bodyLength += size
            unsafe bytes.append(UnsafeRawBufferPointer(start: body, count: min(size, limit - bytes.count)))
        }
    }
}

import CMicrohttpd

// libmicrohttpd's callbacks. All are called on the server's own thread.

/// MHD_AccessHandlerCallback: called once when the headers are there (`*requestContext` is NULL), then for each piece
/// of the body, then with a size of 0, when the response is due.
@c func answerRequest(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ data: UnsafePointer<CChar>?,
    _ size: UnsafeMutablePointer<Int>?, _ requestContext: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    let pages = unsafe Unmanaged<Pages>.fromOpaque(context!).takeUnretainedValue()
    guard let held = unsafe requestContext!.pointee else {
        unsafe requestContext!.pointee = Unmanaged.passRetained(Pending()).toOpaque()
        return .YES
    }
    let pending = unsafe Unmanaged<Pending>.fromOpaque(held).takeUnretainedValue()
    let count = unsafe size!.pointee
    if count > 0 {
        unsafe pending.take(UnsafeRawBufferPointer(start: data, count: count), limit: pages.bodyLimit)
        // "*upload_data_size … must be updated to the number of bytes not processed".
        unsafe size!.pointee = 0
        return .YES
    }
    pages.clients.requestArrived(unsafe mhd_socket(connection))
    return unsafe pages.finish(pending, on: connection!, url: String(cString: url!), method: String(cString: method!))
}

/// MHD_NotifyConnectionCallback: a connection was taken, or is about to be closed.
@c func connectionChanged(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ socketContext: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ what: MHD_ConnectionNotificationCode
) {
    let pages = unsafe Unmanaged<Pages>.fromOpaque(context!).takeUnretainedValue()
    let socket = unsafe mhd_socket(connection)
    guard mhd_is_start(what) else { return pages.clients.closed(socket) }
    let address = unsafe clientAddress(of: connection)
    if let gone = pages.clients.opened(socket, from: address, nowNs: pages.nowNs) { hangUp(gone) }
}

/// Who is at the other end: the address without its port.
private func clientAddress(of connection: OpaquePointer?) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: 16) { bytes, count in
        count = unsafe Int(mhd_client_address(connection, bytes.baseAddress!))
    }
}

/// MHD_RequestCompletedCallback: the request is over, however it ended; gives back what `answerRequest` retained.
@c func requestCompleted(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ requestContext: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ how: MHD_RequestTerminationCode
) {
    let pages = unsafe Unmanaged<Pages>.fromOpaque(context!).takeUnretainedValue()
    pages.clients.answerOver(unsafe mhd_socket(connection), nowNs: pages.nowNs)
    guard let held = unsafe requestContext!.pointee else { return }
    unsafe Unmanaged<Pending>.fromOpaque(held).release()
    unsafe requestContext!.pointee = nil
}

/// MHD_ContentReaderCallback: fills the buffer with the next piece of a streamed body.
private func readBody(
    _ context: UnsafeMutableRawPointer?, _ position: UInt64, _ buffer: UnsafeMutablePointer<CChar>?, _ room: Int
) -> Int {
    let producer = unsafe Unmanaged<Producer>.fromOpaque(context!).takeUnretainedValue()
    switch unsafe producer.next(UnsafeMutableRawBufferPointer(start: buffer, count: room)) {
    case .wrote(let count):
        precondition(count > 0 && count <= room, "a streamed body must fill between 1 byte and the room it got")
        return count
    case .end: return mhd_end_of_stream()
    case .failed: return mhd_end_with_error()
    }
}

/// MHD_ContentReaderFreeCallback: the response was destroyed.
private func freeBody(_ context: UnsafeMutableRawPointer?) {
    unsafe Unmanaged<Producer>.fromOpaque(context!).release()
}

/// MHD_KeyValueIterator: gathers the query's parameters.
private func gatherParameter(
    _ context: UnsafeMutableRawPointer?, _ kind: MHD_ValueKind, _ name: UnsafePointer<CChar>?,
    _ value: UnsafePointer<CChar>?
) -> MHD_Result {
    let parameters = unsafe context!.assumingMemoryBound(to: [(name: String, value: String)].self)
    unsafe parameters.pointee.append((String(cString: name!), value.map { unsafe String(cString: $0) } ?? ""))
    return .YES
}

extension Pending {
    func take(_ bytes: UnsafeRawBufferPointer, limit: Int) {
        guard body.count + bytes.count <= limit, !isTooLarge else {
            isTooLarge = true
            body = []
            return
        }
        unsafe body.append(contentsOf: bytes)
    }
}

extension Pages {
    /// The whole request is there: finds its answer and queues it.
    @unsafe func finish(_ pending: Pending, on connection: OpaquePointer, url: String, method: String) -> MHD_Result {
        if pending.isTooLarge {
            return unsafe queue(.text("the body is longer than \(bodyLimit) bytes\n", status: 413), on: connection)
        }
        // HEAD is GET without the body, which MHD leaves out by itself.
        guard let known = HTTPRequest.Method(rawValue: method == "HEAD" ? "GET" : method) else {
            return unsafe queue(routes.methodNotAllowed(path: url), on: connection)
        }
        var parameters: [(name: String, value: String)] = []
        unsafe withUnsafeMutablePointer(to: &parameters) { list in
            _ = unsafe MHD_get_connection_values(connection, .GET_ARGUMENT_KIND, gatherParameter, list)
        }
        let request = HTTPRequest(method: known, path: url, parameters: parameters, body: pending.body)
        return unsafe queue(routes.answer(request), on: connection)
    }

    @unsafe private func queue(_ answer: HTTPResponse, on connection: OpaquePointer) -> MHD_Result {
        let response: OpaquePointer?
        switch answer.body {
        case .bytes(var bytes):
            // MUST_COPY: MHD keeps its own copy, ours ends with this call.
            unsafe response = MHD_create_response_from_buffer(bytes.count, &bytes, .RESPMEM_MUST_COPY)
        case .stream(let next):
            let producer = unsafe Unmanaged.passRetained(Producer(next)).toOpaque()
            unsafe response = MHD_create_response_from_callback(
                mhd_size_unknown(), 64 * 1024, readBody, producer, freeBody)
        }
        guard let response = unsafe response else { return .NO }
        _ = unsafe MHD_add_response_header(response, "Content-Type", answer.contentType)
        _ = unsafe MHD_add_response_header(response, "Cache-Control", "no-store")
        for header in answer.headers { _ = unsafe MHD_add_response_header(response, header.name, header.value) }
        let queued = unsafe MHD_queue_response(connection, UInt32(answer.status), response)
        // Queued or not, our reference ends here; MHD keeps its own until the response is sent.
        unsafe MHD_destroy_response(response)
        return queued
    }
}

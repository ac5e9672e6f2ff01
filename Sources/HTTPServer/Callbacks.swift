import CMicrohttpd
import Network

// The callbacks of libmicrohttpd. They run on the server's thread, or in `MHD_stop_daemon` after that thread has ended.

final class Pages: Sendable {
    let routes: [Route]
    let isLoopback: Bool

    init(_ routes: [Route], isLoopback: Bool) {
        self.routes = routes
        self.isLoopback = isLoopback
    }

    /// Returns whether the server answers requests with this `Host`. The host name of a web page can resolve to
    /// 127.0.0.1 (DNS rebinding), and its scripts could then read a local server's pages. Their requests contain that
    /// name.
    func accepts(host: String) -> Bool {
        guard isLoopback else { return true }
        let name = host.wholeMatch(of: /\[(.*)\](:\d+)?/)?.1 ?? host.prefix { $0 != ":" }
        return name.lowercased() == "localhost" || SocketAddress(literal: String(name), port: 0) != nil
    }
}

/// The part of a request's body that has arrived.
private final class PendingBody {
    /// The bytes received so far, or `nil` once the body has exceeded the limit.
    var bytes: [UInt8]? = []
}

/// MHD_AccessHandlerCallback. libmicrohttpd calls it when the headers have arrived (`*requestContext` is NULL), then
/// for each piece of the body, then with a size of 0, when the response is due.
@c func answerRequest(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ data: UnsafePointer<CChar>?,
    _ size: UnsafeMutablePointer<Int>?, _ requestContext: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    let pages = unsafe Unmanaged<Pages>.fromOpaque(context!).takeUnretainedValue()
    guard let held = unsafe requestContext!.pointee else {
        unsafe requestContext!.pointee = Unmanaged.passRetained(PendingBody()).toOpaque()
        return .YES
    }
    let body = unsafe Unmanaged<PendingBody>.fromOpaque(held).takeUnretainedValue()
    let count = unsafe size!.pointee
    guard count == 0 else {
        let isTooLong = (body.bytes?.count ?? 0) + count > PageServer.bodyLimit
        unsafe body.bytes?.append(contentsOf: UnsafeRawBufferPointer(start: data, count: isTooLong ? 0 : count))
        if isTooLong { body.bytes = nil }
        // Tell libmicrohttpd that all bytes of this piece were processed (MHD_AccessHandlerCallback,
        // `upload_data_size`).
        unsafe size!.pointee = 0
        return .YES
    }
    let answer = unsafe pages.answer(
        body.bytes, on: connection!, url: String(cString: url!), method: String(cString: method!))
    return unsafe queue(answer, on: connection!)
}

/// MHD_RequestCompletedCallback. libmicrohttpd calls it when a request ends, successfully or not. Releases the object
/// that `answerRequest` retained.
@c func requestCompleted(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ requestContext: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ how: MHD_RequestTerminationCode
) {
    guard let held = unsafe requestContext!.pointee else { return }
    unsafe Unmanaged<PendingBody>.fromOpaque(held).release()
    unsafe requestContext!.pointee = nil
}

extension Pages {
    @unsafe fileprivate func answer(
        _ body: [UInt8]?, on connection: OpaquePointer, url: String, method: String
    ) -> HTTPResponse {
        if let host = unsafe MHD_lookup_connection_value(connection, .HEADER_KIND, "Host"),
            case let name = unsafe String(cString: host), !accepts(host: name)
        {
            return .text(
                "on a loopback address, Host must be an IP address or localhost; a proxy must send Host: localhost\n",
                status: 403)
        }
        guard let body else { return .text("the body is longer than \(PageServer.bodyLimit) bytes\n", status: 413) }
        // HEAD is GET without the body, which libmicrohttpd omits.
        guard let known = HTTPRequest.Method(rawValue: method == "HEAD" ? "GET" : method) else {
            return routes.methodNotAllowed(path: url)
        }
        var parameters: [(name: String, value: String)] = []
        unsafe withUnsafeMutablePointer(to: &parameters) { list in
            _ = unsafe MHD_get_connection_values(connection, .GET_ARGUMENT_KIND, gatherParameter, list)
        }
        let accept = unsafe MHD_lookup_connection_value(connection, .HEADER_KIND, "Accept")
        return routes.answer(
            HTTPRequest(
                method: known, path: url, parameters: parameters,
                accept: unsafe accept.map { unsafe String(cString: $0) } ?? "", body: body))
    }
}

/// MHD_KeyValueIterator: collects the query's parameters.
private func gatherParameter(
    _ context: UnsafeMutableRawPointer?, _ kind: MHD_ValueKind, _ name: UnsafePointer<CChar>?,
    _ value: UnsafePointer<CChar>?
) -> MHD_Result {
    let parameters = unsafe context!.assumingMemoryBound(to: [(name: String, value: String)].self)
    unsafe parameters.pointee.append((String(cString: name!), value.map { unsafe String(cString: $0) } ?? ""))
    return .YES
}

// MARK: Responses

private func queue(_ answer: HTTPResponse, on connection: OpaquePointer) -> MHD_Result {
    let response: OpaquePointer?
    switch answer.body {
    case .bytes(var bytes):
        // MUST_COPY: libmicrohttpd copies the bytes, which are only valid during this call.
        unsafe response = MHD_create_response_from_buffer(bytes.count, &bytes, .RESPMEM_MUST_COPY)
    case .stream(let next):
        let stream = unsafe Unmanaged.passRetained(BodyStream(next)).toOpaque()
        unsafe response = MHD_create_response_from_callback(mhd_size_unknown(), 64 * 1024, readBody, stream, freeBody)
    }
    guard let response = unsafe response else { return .NO }
    let headers = [("Content-Type", answer.contentType), ("Cache-Control", "no-store")] + answer.headers
    for (name, value) in headers { _ = unsafe MHD_add_response_header(response, name, value) }
    let queued = unsafe MHD_queue_response(connection, UInt32(answer.status), response)
    // Release this reference even if queueing failed. libmicrohttpd retains a queued response until it is sent.
    unsafe MHD_destroy_response(response)
    return queued
}

/// The source of a streamed body, which lives until libmicrohttpd frees the response.
@safe private final class BodyStream {
    let next: @Sendable (UnsafeMutableRawBufferPointer) -> HTTPResponse.Step

    init(_ next: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> HTTPResponse.Step) { unsafe self.next = next }
}

/// MHD_ContentReaderCallback: fills the buffer with the next piece of a streamed body.
private func readBody(
    _ context: UnsafeMutableRawPointer?, _ position: UInt64, _ buffer: UnsafeMutablePointer<CChar>?, _ room: Int
) -> Int {
    let stream = unsafe Unmanaged<BodyStream>.fromOpaque(context!).takeUnretainedValue()
    switch unsafe stream.next(UnsafeMutableRawBufferPointer(start: buffer, count: room)) {
    case .wrote(let count):
        precondition(count > 0 && count <= room, "a streamed body must write at least 1 byte and at most a full buffer")
        return count
    case .end: return mhd_end_of_stream()
    case .failed: return mhd_end_with_error()
    }
}

/// MHD_ContentReaderFreeCallback: releases the body when the response is destroyed.
private func freeBody(_ context: UnsafeMutableRawPointer?) {
    unsafe Unmanaged<BodyStream>.fromOpaque(context!).release()
}

import CMicrohttpd
import Glibc

/// A small HTTP/1.1 server for admin pages and control endpoints, on GNU libmicrohttpd with one thread of its own.
///
/// Handlers run on that thread, one at a time. At most `connectionLimit` connections, 30 s each without activity, and
/// bodies of at most `bodyLimit` bytes (413 beyond). Any thread may call `stop`; block the signals that other threads
/// handle before `init`, since the server's thread inherits the mask.
@safe package final class PageServer: Sendable {
    /// The port listened on.
    package let port: UInt16
    private nonisolated(unsafe) let daemon: OpaquePointer
    private let context: Unmanaged<Pages>
    private let stopped = StopOnce()

    /// Listens on a numeric address (loopback by default; port 0: any free one) and serves at once.
    package init(
        host: String = "127.0.0.1", port: UInt16 = 0, routes: [Route], bodyLimit: Int = 64 * 1024,
        connectionLimit: Int = 64
    ) throws(PageServerError) {
        let socket = try ListeningSocket(host: host, port: port)
        self.port = socket.port
        let fd = socket.handOn()
        let context = unsafe Unmanaged.passRetained(Pages(routes: routes, bodyLimit: bodyLimit))
        let daemon = unsafe mhd_start(
            fd, answerRequest, requestCompleted, context.toOpaque(), UInt32(clamping: connectionLimit), 30)
        guard let daemon = unsafe daemon else {
            close(fd)
            unsafe context.release()
            throw PageServerError(description: "the page server on \(host):\(port) could not start its thread")
        }
        unsafe self.daemon = daemon
        unsafe self.context = context
    }

    deinit { stop() }

    /// Stops listening, lets the request being answered finish, closes every connection and joins the thread.
    /// Must not be called by a handler. Calling it again does nothing.
    package func stop() {
        guard stopped.first() else { return }
        // "Shutdown an HTTP daemon": closes the listening socket and joins the thread (microhttpd.h).
        unsafe MHD_stop_daemon(daemon)
        unsafe context.release()
    }
}

/// What the callbacks share: read-only after the start.
final class Pages: Sendable {
    let routes: [Route]
    let bodyLimit: Int

    init(routes: [Route], bodyLimit: Int) {
        self.routes = routes
        self.bodyLimit = bodyLimit
    }
}

/// One request under way: what of its body has come. Touched by the server's thread only.
final class Pending {
    var body: [UInt8] = []
    /// More came than the limit allows; the rest is not kept.
    var isTooLarge = false
}

/// The producer of a streamed body, alive until libmicrohttpd frees the response.
@safe final class Producer: Sendable {
    let next: @Sendable (UnsafeMutableRawBufferPointer) -> HTTPResponse.Step

    init(_ next: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> HTTPResponse.Step) { unsafe self.next = next }
}

import CMicrohttpd
import Glibc
import Synchronization

package struct PageServerError: Error, Equatable, CustomStringConvertible {
    package let description: String
}

/// A small HTTP/1.1 server for admin pages and control endpoints: GNU libmicrohttpd with its own thread.
///
/// Handlers run on that thread, one at a time. A body longer than `bodyLimit` bytes is answered with 413. The server
/// closes connections that were silent for 5 s, and accepts up to `connectionLimit` of them, half of them from one
/// address. Any thread may call `stop`. Block the signals that other threads handle before `init`: the server's thread
/// inherits the mask.
@safe package final class PageServer: Sendable {
    package let port: UInt16
    private nonisolated(unsafe) let server: UnsafeMutablePointer<mhd_server>
    private let pages: Pages
    private let isStopped = Atomic(false)

    package static let connectionLimit = 64
    private static let silenceSeconds: UInt32 = 5

    /// Listens on a numeric address (`localhost` is 127.0.0.1, port 0 is any free one) and serves at once.
    package init(
        host: String = "127.0.0.1", port: UInt16 = 0, routes: [Route], bodyLimit: Int = 64 * 1024
    ) throws(PageServerError) {
        let socket: Int32
        (socket, self.port) = try listeningSocket(host, port)
        pages = Pages(routes: routes, bodyLimit: bodyLimit)
        let server = unsafe mhd_start(
            socket, answerRequest, requestCompleted, Unmanaged.passUnretained(pages).toOpaque(),
            UInt32(Self.connectionLimit), Self.silenceSeconds)
        guard let server = unsafe server else {
            close(socket)
            throw PageServerError(description: "the page server on \(host):\(port) could not be started")
        }
        unsafe self.server = server
    }

    deinit { stop() }

    /// Stops listening, lets the request being answered finish, closes every connection and joins the thread.
    /// Must not be called by a handler. Calling it again does nothing.
    package func stop() {
        guard !isStopped.exchange(true, ordering: .acquiringAndReleasing) else { return }
        unsafe mhd_stop(server)
    }
}

/// Binds a TCP socket and listens on it; returns the port that the kernel chose for 0. An empty host stands for every
/// IPv4 address.
private func listeningSocket(_ host: String, _ port: UInt16) throws(PageServerError) -> (socket: Int32, port: UInt16) {
    let place = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    var hints = unsafe addrinfo()
    unsafe hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    let numeric = host == "localhost" ? "127.0.0.1" : host.isEmpty ? "0.0.0.0" : host
    guard unsafe getaddrinfo(numeric, String(port), &hints, &found) == 0, let address = unsafe found else {
        throw PageServerError(description: "\(place) is not an address to listen on: give an IP address")
    }
    defer { unsafe freeaddrinfo(address) }
    // libmicrohttpd accepts until no connection is waiting, so the socket must not block.
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let fd = unsafe socket(address.pointee.ai_family, type, 0)
    var (yes, intSize): (Int32, socklen_t) = (1, socklen_t(MemoryLayout<Int32>.size))
    var bound = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let isListening = unsafe withUnsafeMutableBytes(of: &bound) { bytes in
        unsafe setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, intSize) == 0
            && bind(fd, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0 && listen(fd, 64) == 0
            && getsockname(fd, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length) == 0
    }
    guard isListening else {
        let reason = unsafe String(cString: strerror(errno))
        close(fd)
        throw PageServerError(description: "cannot listen on \(place): \(reason)")
    }
    // sin_port and sin6_port both follow the 16-bit family, in network order.
    return unsafe withUnsafeBytes(of: &bound) {
        (fd, UInt16(bigEndian: unsafe $0.load(fromByteOffset: 2, as: UInt16.self)))
    }
}

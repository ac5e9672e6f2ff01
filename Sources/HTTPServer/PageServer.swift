import CMicrohttpd
import EventLoop
import Glibc
import Network
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

    /// Listens as `Descriptor.listening` does, and serves at once.
    package init(
        host: String = "127.0.0.1", port: UInt16 = 0, routes: [Route], bodyLimit: Int = 64 * 1024
    ) throws(PageServerError) {
        let place = DialTarget.text(host, port)
        let listening: (descriptor: Descriptor, address: SocketAddress)
        do throws(SystemError) { listening = try Descriptor.listening(on: host, port) } catch {
            let advice = error.code == EADDRNOTAVAIL ? "; give an IP address of this machine" : ""
            throw PageServerError(description: "cannot listen on \(place): \(SystemError.text(error.code))\(advice)")
        }
        self.port = listening.address.port
        // libmicrohttpd closes the descriptor that it gets.
        let socket = fcntl(listening.descriptor.raw, F_DUPFD_CLOEXEC, 0)
        pages = Pages(routes: routes, bodyLimit: bodyLimit)
        let server = unsafe mhd_start(
            socket, answerRequest, requestCompleted, Unmanaged.passUnretained(pages).toOpaque(),
            UInt32(Self.connectionLimit), Self.silenceSeconds)
        guard let server = unsafe server else {
            close(socket)
            throw PageServerError(description: "the page server on \(place) could not be started")
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

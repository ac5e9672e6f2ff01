import CMicrohttpd
import EventLoop
import Glibc
import Network
import Synchronization

package struct PageServerError: Error, Equatable, CustomStringConvertible {
    package let description: String
}

/// A small HTTP/1.1 server for admin pages and control endpoints: GNU libmicrohttpd on a separate event loop.
///
/// Handlers run on that loop's thread, one at a time. The server answers a body longer than `bodyLimit` bytes with 413,
/// closes connections that were silent for 5 s, and accepts up to `connectionLimit` connections, at most half of them
/// from one address. On a loopback address, it answers requests to a host name other than `localhost` with 403. Any
/// other thread can call `stop`. Before `init`, block the signals that other threads handle, because the server's
/// thread inherits the signal mask.
@safe package final class PageServer: Sendable {
    package let port: UInt16
    private nonisolated(unsafe) let daemon: OpaquePointer
    private let pages: Pages
    private let thread: LoopThread
    private let isStopped = Atomic(false)

    package static let connectionLimit = 256
    static let bodyLimit = 64 * 1024
    private static let silenceSeconds: UInt32 = 5

    /// Listens on an address and begins to serve. `host` and `port` mean the same as in `Descriptor.listening`.
    package init(host: String = "127.0.0.1", port: UInt16 = 0, routes: [Route]) throws(PageServerError) {
        let place = DialTarget.text(host, port)
        let listening: (descriptor: Descriptor, address: SocketAddress)
        do throws(SystemError) { listening = try Descriptor.listening(on: host, port) } catch {
            let advice = error.code == EADDRNOTAVAIL ? "; give an IP address of this machine" : ""
            throw PageServerError(description: "cannot listen on \(place): \(SystemError.text(error.code))\(advice)")
        }
        self.port = listening.address.port
        // Pass a duplicate of the socket, because libmicrohttpd and `Descriptor` each close their own descriptor.
        let socket = fcntl(listening.descriptor.raw, F_DUPFD_CLOEXEC, 0)
        pages = Pages(routes, isLoopback: listening.address.isLoopback)
        let daemon = unsafe mhd_start(
            socket, answerRequest, requestCompleted, Unmanaged.passUnretained(pages).toOpaque(),
            UInt32(Self.connectionLimit), Self.silenceSeconds)
        guard let daemon = unsafe daemon else {
            close(socket)
            throw PageServerError(description: "the page server on \(place) could not be started")
        }
        unsafe self.daemon = daemon
        do throws(SystemError) {
            nonisolated(unsafe) let daemon = unsafe daemon
            thread = try LoopThread(name: "pages") { unsafe serve(daemon, on: $0) }
        } catch {
            unsafe MHD_stop_daemon(daemon)
            throw PageServerError(description: "the page server on \(place) could not be started: \(error)")
        }
    }

    deinit { stop() }

    /// Stops listening, waits until the handler of the current request has returned, closes every connection and joins
    /// the thread. Handlers must not call this method. A second call does nothing.
    package func stop() {
        guard !isStopped.exchange(true, ordering: .acquiringAndReleasing) else { return }
        thread.stop()
        thread.join()
        unsafe MHD_stop_daemon(daemon)
    }
}

/// Runs libmicrohttpd at the end of each turn of the loop. An event on libmicrohttpd's epoll descriptor, or its
/// timeout, starts a turn.
private func serve(_ daemon: OpaquePointer, on loop: Loop) {
    let epoll = unsafe mhd_epoll(daemon)
    let alarm = Alarm(loop: loop) {}
    // Registering fails only if the kernel runs out of memory or of epoll watches (epoll_ctl(2)).
    _ = try? loop.register(epoll, for: .readable) { _ in }
    nonisolated(unsafe) let daemon = unsafe daemon
    loop.onTurnEnd {
        unsafe MHD_run(daemon)
        // If no descriptor is free and no connection is open, libmicrohttpd retries accept(2) in a busy loop ("Will try
        // busy waiting", daemon.c). To prevent this, pause if no descriptor is free.
        let spare = fcntl(epoll, F_DUPFD_CLOEXEC, 0)
        if spare < 0 { usleep(100_000) } else { close(spare) }
        var leftMs: UInt64 = 0
        let hasTimeout = unsafe MHD_get_timeout(daemon, &leftMs) == .YES
        if hasTimeout { alarm.set(afterNs: Int64(min(leftMs, 60_000)) * 1_000_000) } else { alarm.clear() }
    }
}

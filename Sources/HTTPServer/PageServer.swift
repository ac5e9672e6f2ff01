import CMicrohttpd
import EventLoop
import Glibc
import Synchronization

/// A small HTTP/1.1 server for admin pages and control endpoints, on GNU libmicrohttpd with one thread of its own.
///
/// Handlers run on that thread, one at a time. A request has to arrive within `requestLimitNs`, its body of at most
/// `bodyLimit` bytes (413 beyond) included, and an answer has to move within 30 s; of more than `connectionLimit`
/// connections one is closed (`ClientTable`). Any thread may call `stop`; block the signals that other threads handle
/// before `init`, since the server's thread inherits the mask.
@safe package final class PageServer: Sendable {
    /// The port listened on.
    package let port: UInt16
    private nonisolated(unsafe) let daemon: OpaquePointer
    private let context: Unmanaged<Pages>
    private let turns: ServerTurns
    private let thread: LoopThread
    private let stopped = StopOnce()

    private static let answerSeconds: UInt32 = 30
    /// Connections that libmicrohttpd takes beyond ours, until those that have to go for them are gone.
    private static let spare = 64

    /// How many clients there may be, where the caller does not say.
    package static let connectionLimit = 64

    /// Listens on a numeric address (loopback by default; port 0: any free one) and serves at once.
    package init(
        host: String = "127.0.0.1", port: UInt16 = 0, routes: [Route], bodyLimit: Int = 64 * 1024,
        connectionLimit: Int = PageServer.connectionLimit, requestLimitNs: Int64 = 5_000_000_000
    ) throws(PageServerError) {
        let socket = try ListeningSocket(host: host, port: port)
        self.port = socket.port
        let fd = socket.handOn()
        let pages = Pages(
            routes: routes, bodyLimit: bodyLimit,
            clients: ClientTable(limit: connectionLimit, requestNs: requestLimitNs))
        let context = unsafe Unmanaged.passRetained(pages)
        let daemon = unsafe mhd_start(
            fd, answerRequest, requestCompleted, connectionChanged, context.toOpaque(),
            UInt32(clamping: connectionLimit + Self.spare), Self.answerSeconds)
        guard let daemon = unsafe daemon else {
            close(fd)
            unsafe context.release()
            throw PageServerError(description: "the page server on \(host):\(port) could not be started")
        }
        let turns = unsafe ServerTurns(daemon, pages)
        self.turns = turns
        do {
            thread = try LoopThread(name: "pages") { loop in turns.begin(on: loop) }
        } catch {
            unsafe MHD_stop_daemon(daemon)
            unsafe context.release()
            throw PageServerError(
                description: "the page server on \(host):\(port) could not start its thread: \(error)")
        }
        unsafe self.daemon = daemon
        unsafe self.context = context
    }

    deinit { stop() }

    /// Stops listening, lets the request being answered finish, closes every connection and joins the thread.
    /// Must not be called by a handler. Calling it again does nothing.
    package func stop() {
        guard stopped.first() else { return }
        thread.stop()
        thread.join()
        // "Shutdown an HTTP daemon": closes the listening socket and all connections (microhttpd.h).
        unsafe MHD_stop_daemon(daemon)
        unsafe context.release()
    }
}

/// What the callbacks share. Touched by the server's thread only, and by whoever stops it after that.
final class Pages: @unchecked Sendable {
    let routes: [Route]
    let bodyLimit: Int
    var clients: ClientTable
    /// Of this turn (monotonic).
    var nowNs: Int64 = 0

    init(routes: [Route], bodyLimit: Int, clients: ClientTable) {
        self.routes = routes
        self.bodyLimit = bodyLimit
        self.clients = clients
    }
}

/// Lets libmicrohttpd work whenever it has something to do, and closes the connections that have to go. It is made by
/// one thread and touched by the server's alone from then on: that is what `@unchecked Sendable` stands for.
@safe private final class ServerTurns: @unchecked Sendable {
    private let daemon: OpaquePointer
    private let pages: Pages
    private var alarm: Alarm?
    /// It looks at least so often. Out of descriptors, libmicrohttpd stops listening, and begins again only when it is
    /// called after a connection was closed; nothing tells of that.
    private static let lookEveryNs: Int64 = 500_000_000
    /// Where nothing tells when there is something to do.
    private static let lookOftenNs: Int64 = 50_000_000
    private var pauseNs = ServerTurns.lookEveryNs

    @unsafe init(_ daemon: OpaquePointer, _ pages: Pages) {
        unsafe self.daemon = daemon
        self.pages = pages
    }

    func begin(on loop: Loop) {
        // An answer to a client that is gone.
        Signals.block([SIGPIPE])
        alarm = Alarm(loop: loop) { [unowned self, unowned loop] in turn(loop) }
        do {
            _ = try unsafe loop.register(mhd_epoll(daemon), for: .readable) { [unowned self, unowned loop] _ in
                turn(loop)
            }
        } catch {
            // Only a lack of kernel memory does that.
            pauseNs = Self.lookOftenNs
        }
        turn(loop)
    }

    private func turn(_ loop: Loop) {
        pages.nowNs = loop.now.monotonicNs
        _ = unsafe MHD_run(daemon)
        for socket in pages.clients.takeOverdue(nowNs: pages.nowNs) { hangUp(socket) }
        var nextNs = min(pages.nowNs + pauseNs, pages.clients.nextDeadlineNs ?? .max)
        let waitMs = unsafe mhd_timeout(daemon)
        if waitMs >= 0 { nextNs = min(nextNs, pages.nowNs + waitMs * 1_000_000) }
        alarm?.set(atNs: nextNs)
    }
}

/// Makes libmicrohttpd see the end of a connection: it closes the socket itself.
func hangUp(_ socket: Int32) { _ = shutdown(socket, Int32(SHUT_RDWR)) }

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

/// Says `true` to the first who asks, on whatever thread.
final class StopOnce: Sendable {
    private let asked = Atomic(false)

    func first() -> Bool { !asked.exchange(true, ordering: .acquiringAndReleasing) }
}

import Configuration
import Glibc

/// What the process of the relay is told.
struct RelayOptions: Sendable {
    /// The first argument that makes `apns-bench` this process.
    static let command = "relay"

    var listenPort = 0
    var targetPort = 0
    var delayMs = 25

    static let table = OptionTable<RelayOptions>(
        command: "apns-bench \(command)", usage: ["OPTIONS"],
        about: ["A network of some length: passes TCP connections on, each byte so much later. Until SIGTERM."],
        options: [
            .init("listen", value: "PORT", "Where it listens, on 127.0.0.1.") { options, text throws(UsageError) in
                options.listenPort = try OptionValue.integer(text, 1...65_535)
            },
            .init("target", value: "PORT", "Where it connects to, on 127.0.0.1.") {
                options, text throws(UsageError) in
                options.targetPort = try OptionValue.integer(text, 1...65_535)
            },
            .init("delay-ms", value: "N", "How long each way takes (default 25).") {
                options, text throws(UsageError) in
                options.delayMs = try OptionValue.integer(text, 0...10_000)
            },
        ])
}

/// `apns-bench relay`.
func runRelay(_ arguments: [String]) -> Int32 {
    do {
        guard case .values(let options) = try RelayOptions.table.parse(arguments, RelayOptions()) else {
            say(RelayOptions.table.help)
            return 0
        }
        try Relay(options).run()
        return 0
    } catch {
        complain("apns-bench relay: \(error)")
        return 1
    }
}

/// Passes bytes on after a delay, as much as comes: what limits a connection through it is the sender's own window.
///
/// TCP's own acknowledgements come from the relay at once, so TCP's windows and its slow start see no delay: only what is
/// said inside the connection does, HTTP/2's WINDOW_UPDATE among it. One thread, poll(2).
private final class Relay {
    private let options: RelayOptions
    private let listener: Int32
    private var lines: [RelayLine] = []

    init(_ options: RelayOptions) throws(BenchFailure) {
        self.options = options
        listener = try Ports.listening(options.listenPort)
    }

    deinit { close(listener) }

    func run() throws(BenchFailure) {
        while true {
            var watched = [pollfd(fd: listener, events: Int16(POLLIN), revents: 0)]
            var nextNs = Int64.max
            for line in lines {
                for index in 0..<2 {
                    watched.append(pollfd(fd: line.sockets[index], events: line.events(index), revents: 0))
                    nextNs = min(nextNs, line.pipes[index].nextDueNs)
                }
            }
            // A second at most; to the microsecond, where poll has milliseconds.
            let waitNs = min(max(0, nextNs - Clocks.monotonicNs), 999_999_999)
            var wait = timespec(tv_sec: 0, tv_nsec: Int(waitNs))
            guard ppoll(&watched, nfds_t(watched.count), &wait, nil) >= 0 || errno == EINTR else {
                throw BenchFailure("poll: \(String(cString: strerror(errno)))")
            }
            let nowNs = Clocks.monotonicNs
            for (index, line) in lines.enumerated() {
                for side in 0..<2 where watched[1 + 2 * index + side].revents != 0 {
                    line.receive(side, dueNs: nowNs + Int64(options.delayMs) * 1_000_000)
                }
                line.passOn(nowNs: nowNs)
            }
            lines.removeAll { $0.isOver }
            if watched[0].revents != 0 { try accept() }
        }
    }

    private func accept() throws(BenchFailure) {
        let near = Glibc.accept(listener, nil, nil)
        guard near >= 0 else { return }
        Ports.sendAtOnce(near)
        lines.append(RelayLine(near, try Ports.connect(options.targetPort)))
    }
}

/// One connection through the relay: two sockets and what is on its way between them.
private final class RelayLine {
    let sockets: [Int32]
    /// What came from the socket of that index, for the other.
    var pipes = [DelayedBytes(), DelayedBytes()]
    private var isBroken = false
    nonisolated(unsafe) private static let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 64)

    init(_ near: Int32, _ far: Int32) {
        sockets = [near, far]
        for socket in sockets { _ = fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK) }
    }

    deinit { for socket in sockets { close(socket) } }

    var isOver: Bool { isBroken || pipes[0].isDone && pipes[1].isDone }

    /// What poll(2) is to look for at a socket.
    func events(_ side: Int) -> Int16 {
        let takes = pipes[side].takes ? POLLIN : 0
        return Int16(takes | (pipes[1 - side].isBlocked ? POLLOUT : 0))
    }

    /// Takes all that a socket has.
    func receive(_ side: Int, dueNs: Int64) {
        while pipes[side].takes {
            let count = recv(sockets[side], Self.buffer.baseAddress, Self.buffer.count, 0)
            if count < 0, errno == EAGAIN || errno == EINTR { return }
            if count < 0 {
                isBroken = true
                return
            }
            pipes[side].append(UnsafeRawBufferPointer(rebasing: Self.buffer[..<count]), dueNs: dueNs)
            if count < Self.buffer.count { return }
        }
    }

    /// Writes what is due.
    func passOn(nowNs: Int64) {
        for side in 0..<2 {
            let target = sockets[1 - side]
            pipes[side].passOn(nowNs: nowNs) { bytes in
                let count = send(target, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
                if count < 0, errno != EAGAIN, errno != EINTR { isBroken = true }
                return max(0, count)
            }
            if pipes[side].takeEnd() { shutdown(target, Int32(SHUT_WR)) }
        }
    }
}

/// Bytes on their way, each due at its time; at most some 16 MB.
private struct DelayedBytes {
    private var chunks: [(dueNs: Int64, bytes: [UInt8])] = []
    private var first = 0
    /// Of the first chunk, passed on already.
    private var passed = 0
    private var waiting = 0
    private var hasEnded = false
    /// The end itself was passed on.
    private(set) var isDone = false
    /// The target takes no more for now.
    private(set) var isBlocked = false

    private static let limit = 16 << 20

    var takes: Bool { !hasEnded && waiting < Self.limit }

    /// `.max`: nothing, or not before the target takes more.
    var nextDueNs: Int64 { first < chunks.count && !isBlocked ? chunks[first].dueNs : .max }

    /// No bytes are the end.
    mutating func append(_ bytes: UnsafeRawBufferPointer, dueNs: Int64) {
        if bytes.isEmpty { hasEnded = true }
        chunks.append((dueNs, Array(bytes)))
        waiting += bytes.count
    }

    mutating func passOn(nowNs: Int64, _ send: (UnsafeRawBufferPointer) -> Int) {
        isBlocked = false
        while first < chunks.count, chunks[first].dueNs <= nowNs, !isBlocked {
            let left = chunks[first].bytes.count - passed
            let sent = left == 0 ? 0 : chunks[first].bytes.withUnsafeBytes { send(UnsafeRawBufferPointer(rebasing: $0[passed...])) }
            waiting -= sent
            passed += sent
            if sent < left {
                isBlocked = true
            } else {
                passed = 0
                first += 1
            }
        }
        if first > 256 || first == chunks.count {
            chunks.removeFirst(first)
            first = 0
        }
    }

    /// Whether the end's time has come, once.
    mutating func takeEnd() -> Bool {
        guard hasEnded, !isDone, first == chunks.count else { return false }
        isDone = true
        return true
    }
}

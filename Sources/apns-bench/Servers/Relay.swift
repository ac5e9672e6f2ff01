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
    runChild(RelayOptions.table, arguments, RelayOptions(), prefix: "apns-bench relay: ") { try Relay($0).run() }
}

/// Passes bytes on after a delay, as much as comes: what limits a connection through it is the sender's own window.
///
/// TCP's own acknowledgements come from the relay at once, so TCP's windows and its slow start see no delay: only what
/// is said inside the connection does, HTTP/2's WINDOW_UPDATE among it. One thread, pselect(2).
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
            var readable = DescriptorSet()
            var writable = DescriptorSet()
            readable.insert(listener)
            var nextNs = Int64.max
            for line in lines {
                line.watch(&readable, &writable)
                nextNs = min(nextNs, line.nextDueNs)
            }
            // To the nanosecond, where poll(2) has milliseconds; a second at most.
            let waitNs = min(max(0, nextNs - Clocks.monotonicNs), 999_999_999)
            guard DescriptorSet.wait(&readable, &writable, atMostNs: waitNs) else {
                throw BenchFailure("pselect: \(String(cString: strerror(errno)))")
            }
            let nowNs = Clocks.monotonicNs
            for line in lines {
                line.receive(readable, dueNs: nowNs + Int64(options.delayMs) * 1_000_000)
                line.passOn(nowNs: nowNs)
            }
            lines.removeAll { $0.isOver }
            if readable.contains(listener) { try accept() }
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
    private var pipes = [DelayedBytes(), DelayedBytes()]
    private var isBroken = false
    nonisolated(unsafe) private static let buffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: 65_536, alignment: 64)

    init(_ near: Int32, _ far: Int32) {
        sockets = [near, far]
        for socket in sockets { _ = fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK) }
    }

    deinit { for socket in sockets { close(socket) } }

    var isOver: Bool { isBroken || pipes[0].isDone && pipes[1].isDone }

    var nextDueNs: Int64 { min(pipes[0].nextDueNs, pipes[1].nextDueNs) }

    /// Adds what is to be looked for.
    func watch(_ readable: inout DescriptorSet, _ writable: inout DescriptorSet) {
        for side in 0..<2 {
            if pipes[side].takes { readable.insert(sockets[side]) }
            if pipes[1 - side].isBlocked { writable.insert(sockets[side]) }
        }
    }

    /// Takes all that the sockets have.
    func receive(_ readable: DescriptorSet, dueNs: Int64) {
        for side in 0..<2 where readable.contains(sockets[side]) { receive(side, dueNs: dueNs) }
    }

    private func receive(_ side: Int, dueNs: Int64) {
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

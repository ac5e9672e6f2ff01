import Foundation
import Glibc
import Synchronization
import Testing

@testable import HTTPServer

/// Connections that send their requests a byte at a time, each of which they would never end.
private final class SlowClients: @unchecked Sendable {
    private let sockets: [Int32]
    private let isOver = Atomic(false)
    private let thread = DispatchSemaphore(value: 0)

    init(_ count: Int, port: UInt16) throws {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var sockets: [Int32] = []
        for _ in 0..<count {
            let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
            sockets.append(client)
            _ = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        }
        self.sockets = sockets
        // A burst overflows the listener's backlog; those left out come back after a second or more.
        let deadline = Date(timeIntervalSinceNow: 5)
        for client in sockets {
            var entry = pollfd(fd: client, events: Int16(POLLOUT), revents: 0)
            _ = poll(&entry, 1, Int32(max(0, deadline.timeIntervalSinceNow * 1_000)))
        }
        Thread.detachNewThread { [self] in
            let start = Array("GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ".utf8)
            var sent = 0
            while !isOver.load(ordering: .relaxed) {
                let byte = sent < start.count ? start[sent] : UInt8(ascii: "x")
                for client in self.sockets {
                    _ = withUnsafeBytes(of: byte) { send(client, $0.baseAddress, 1, Int32(MSG_NOSIGNAL)) }
                }
                sent += 1
                usleep(100_000)
            }
            thread.signal()
        }
    }

    /// How many of them the server has closed.
    var closed: Int {
        sockets.count { client in
            var byte: UInt8 = 0
            let got = recv(client, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
            return got == 0 || (got < 0 && errno != EAGAIN)
        }
    }

    deinit { for client in sockets { close(client) } }

    func end() {
        isOver.store(true, ordering: .relaxed)
        thread.wait()
    }
}

@Suite(.enabled(if: Curl.isThere, "needs \(Curl.path)"), .timeLimit(.minutes(5)))
struct SlowClientTests {
    private let home = [Route(.get, "/") { _ in .text("home\n") }]

    @Test func `Two hundred clients that send a byte now and then keep no other from its answer`() throws {
        // Theirs is the whole test's time: nobody goes for being late.
        let server = try PageServer(routes: home, requestLimitNs: 600_000_000_000)
        let clients = try SlowClients(200, port: server.port)
        defer { clients.end() }
        let clock = ContinuousClock()
        for _ in 0..<20 {
            let start = clock.now
            #expect(try Curl(port: server.port, page: "/").body == "home\n")
            let taken = clock.now - start
            // Held up, it would wait for theirs, 600 s. (A busy machine takes seconds to start curl.)
            #expect(taken < .seconds(15), "\(taken)")
            usleep(50_000)
        }
    }

    @Test func `A request that does not arrive in time ends its connection, however it trickles`() throws {
        let server = try PageServer(routes: home, requestLimitNs: 1_000_000_000)
        let clients = try SlowClients(20, port: server.port)
        defer { clients.end() }
        let deadline = Date(timeIntervalSinceNow: 20)
        while clients.closed < 20, Date() < deadline { usleep(20_000) }
        #expect(clients.closed == 20)
        #expect(try Curl(port: server.port, page: "/").body == "home\n")
    }

    @Test func `An answer may take longer than a request`() throws {
        let pieces = Mutex(0)
        let slow = Route(.get, "/slow") { _ in
            HTTPResponse(
                contentType: "text/plain",
                body: .stream { room in
                    usleep(100_000)
                    return pieces.withLock { count in
                        count += 1
                        guard count <= 10 else { return .end }
                        room[0] = UInt8(ascii: "x")
                        return .wrote(1)
                    }
                })
        }
        let server = try PageServer(routes: [slow], requestLimitNs: 200_000_000)
        let answer = try Curl(port: server.port, page: "/slow")
        #expect(answer.exit == 0 && answer.body == "xxxxxxxxxx")
    }

    // MARK: Who has to go

    private func table(_ addresses: [UInt8], limit: Int) -> ClientTable {
        var table = ClientTable(limit: limit, requestNs: 10)
        for (index, address) in addresses.enumerated() {
            #expect(table.opened(Int32(index), from: [address], nowNs: Int64(index)) == nil)
        }
        return table
    }

    @Test func `Beyond the limit the address with the most connections loses the one that waits for the longest`() {
        var table = table([1, 2, 2, 2], limit: 4)
        table.requestArrived(1)
        #expect(table.opened(9, from: [3], nowNs: 9) == 2, "who is being answered goes last")
        #expect(table.count == 4)
        table.answerOver(3, nowNs: 9)
        #expect(table.opened(10, from: [2], nowNs: 10) == 3)
        #expect(table.opened(11, from: [2], nowNs: 11) == 10)
        #expect(table.opened(12, from: [2], nowNs: 12) == 11)
    }

    @Test func `Where each address has one connection the one that waits for the longest goes`() {
        var table = table([1, 2], limit: 2)
        #expect(table.opened(9, from: [3], nowNs: 9) == 0)
    }

    @Test func `Only those are overdue whose request has not arrived, once`() {
        var table = table([1, 2, 3], limit: 4)
        table.requestArrived(0)
        #expect(table.nextDeadlineNs == 11)
        #expect(table.takeOverdue(nowNs: 10) == [])
        #expect(table.takeOverdue(nowNs: 11) == [1])
        #expect(table.takeOverdue(nowNs: 11) == [])
        table.answerOver(0, nowNs: 12)
        #expect(table.nextDeadlineNs == 12)
        table.closed(2)
        #expect(table.takeOverdue(nowNs: 1_000) == [0])
        #expect(table.nextDeadlineNs == nil)
    }
}

// A debug build finds SOCK_STREAM only through CLinux, whose header includes sys/socket.h too.
import CLinux
import Foundation
import Glibc

/// An HTTP client for local pages: the admin pages of a worker, the control endpoint of the simulator.
package enum LocalHTTP {
    /// Returns the status and the body. The status is 0 if nothing listens or the connection ended without an answer.
    ///
    /// - Parameter url: `http://127.0.0.1:2198/totals`.
    package static func request(_ url: String, method: String = "GET") -> (status: Int, body: String) {
        guard let parts = url.firstMatch(of: /http:\/\/127\.0\.0\.1:(\d+)(\/.*)?/), let port = UInt16(parts.1) else {
            return (0, "")
        }
        // With HTTP/1.0, the end of the connection ends the body.
        let head = "\(method) \(parts.2 ?? "/") HTTP/1.0\r\nHost: 127.0.0.1:\(port)\r\nContent-Length: 0\r\n\r\n"
        let text = String(decoding: ask(port, Array(head.utf8)) ?? [], as: UTF8.self)
        guard let end = text.firstRange(of: "\r\n\r\n"), let status = text.firstMatch(of: /^HTTP\/1\.[01] (\d{3})/)
        else {
            return (0, "")
        }
        return (Int(status.1) ?? 0, String(text[end.upperBound...]))
    }

    /// Sends bytes to a local port. Returns the first `count` bytes of the answer, or fewer if the connection ends
    /// before, or `nil` if nothing listens.
    package static func ask(_ port: UInt16, _ request: [UInt8], count: Int = .max) -> [UInt8]? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var wait = timeval(tv_sec: Int(ChildProcess.patience), tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &wait, socklen_t(MemoryLayout<timeval>.size))
        guard connect(descriptor, to: port) else { return nil }
        var rest = request[...]
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard sent > 0 else { return [] }
            rest = rest.dropFirst(sent)
        }
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while answer.count < count, case let size = read(descriptor, &buffer, buffer.count), size > 0 {
            answer += buffer[..<size]
        }
        return answer
    }

    /// Connects a socket to a local port. Returns whether that succeeded.
    ///
    /// - Parameter number: the last number of the client's address, which the kernel chooses by default.
    package static func connect(_ descriptor: Int32, from number: UInt32? = nil, to port: UInt16) -> Bool {
        var (own, address) = (sockaddr_in(port: 0), sockaddr_in(port: port))
        own.sin_addr.s_addr = (0x7f00_0000 | (number ?? 1)).bigEndian
        return (number == nil || own.pass { bind(descriptor, $0, $1.pointee) } == 0)
            && address.pass { Glibc.connect(descriptor, $0, $1.pointee) } == 0
    }
}

extension sockaddr_in {
    /// An address of this machine (127.0.0.1), or all of its addresses.
    init(port: UInt16, isAny: Bool = false) {
        self.init()
        sin_family = sa_family_t(AF_INET)
        sin_port = port.bigEndian
        sin_addr.s_addr = isAny ? 0 : UInt32(0x7f00_0001).bigEndian
    }

    /// Passes the address and its size to a function of the C library.
    mutating func pass<R>(_ call: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> R) -> R {
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &self) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { call($0, &size) }
        }
    }
}

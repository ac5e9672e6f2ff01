import EventLoop
import Foundation
import Network
import Synchronization

/// An HTTP proxy that does what CONNECT asks for, on a loop of its own, and keeps what it was asked.
final class ConnectProxy: Sendable {
    let port: UInt16
    private let thread: LoopThread
    private let asked = Mutex<[String]>([])

    /// What each connection began with, up to the empty line.
    var heads: [String] { asked.withLock { $0 } }

    init() throws {
        let ready = DispatchSemaphore(value: 0)
        let found = Mutex<UInt16>(0)
        let holder = Holder()
        thread = try LoopThread(name: "proxy") { loop in
            let listener = try? Listener(host: "127.0.0.1", port: 0, loop: loop) { accepted in
                holder.tunnels.append(Tunnel(accepted.descriptor, loop) { holder.onHead($0) })
            }
            holder.listener = listener
            found.withLock { $0 = listener?.port ?? 0 }
            ready.signal()
        }
        ready.wait()
        port = found.withLock { $0 }
        holder.onHead = { [unowned self] head in asked.withLock { $0.append(head) } }
    }

    func stop() {
        thread.stop()
        thread.join()
    }

    /// What only the proxy's thread touches, once it is set up.
    private final class Holder: @unchecked Sendable {
        var listener: Listener?
        var tunnels: [Tunnel] = []
        var onHead: (String) -> Void = { _ in }
    }
}

/// One connection to the proxy and, once it has asked, one to where it wants to go.
private final class Tunnel {
    private let client: Descriptor
    private var server: Descriptor?
    private var registrations: [Registration] = []
    private var head = ""
    private let loop: Loop
    private let onHead: (String) -> Void

    init(_ client: Descriptor, _ loop: Loop, onHead: @escaping (String) -> Void) {
        self.client = client
        self.loop = loop
        self.onHead = onHead
        copy(from: client.raw) { [unowned self] bytes in
            if let server { return Self.write(bytes, to: server.raw) }
            head += String(decoding: bytes, as: UTF8.self)
            if head.hasSuffix("\r\n\r\n") { connect() }
        }
    }

    private func connect() {
        onHead(head)
        let target = head.split(separator: " ")[1]
        let parts = target.split(separator: ":")
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(parts[1])!.bigEndian
        inet_pton(AF_INET, String(parts[0]), &address.sin_addr)
        let raw = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let server = Descriptor(adopting: raw)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            return Self.write(Array("HTTP/1.1 502 Bad Gateway\r\n\r\n".utf8)[...], to: client.raw)
        }
        self.server = server
        copy(from: raw) { [unowned self] in Self.write($0, to: client.raw) }
        Self.write(Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8)[...], to: client.raw)
    }

    private func copy(from source: Int32, _ take: @escaping (ArraySlice<UInt8>) -> Void) {
        let registration = try? loop.register(source, for: .readable) { [unowned self] _ in
            var chunk = [UInt8](repeating: 0, count: 65_536)
            let count = Glibc.read(source, &chunk, chunk.count)
            if count > 0 { return take(chunk[..<count]) }
            for registration in registrations { loop.unregister(registration) }
            registrations = []
            shutdown(client.raw, Int32(SHUT_RDWR))
            if let server { shutdown(server.raw, Int32(SHUT_RDWR)) }
        }
        if let registration { registrations.append(registration) }
    }

    /// Sockets of a test take what it sends.
    private static func write(_ bytes: ArraySlice<UInt8>, to sink: Int32) {
        bytes.withUnsafeBytes { _ = Glibc.write(sink, $0.baseAddress, $0.count) }
    }
}

import EventLoop
import Foundation
import TLS
import TestSupport
import Testing

@testable import Network

@Suite struct ProxyTests {
    @Test func `A connection through a proxy carries TLS`() throws {
        let world = try World()
        let proxy = try Proxy(world.loop, upstream: world.listener.port)
        let client = try world.connect(
            DialTarget(
                host: "push.example", port: 443,
                proxy: .init(host: "127.0.0.1", port: proxy.port, credentials: "user:päss")))
        client.onOpened = { $0.send(Array("through".utf8)) }
        try world.run { world.servers.first?.received.count == 7 }
        #expect(
            proxy.request
                == "CONNECT push.example:443 HTTP/1.1\r\nHost: push.example:443\r\n"
                + "Proxy-Authorization: Basic \(Data("user:päss".utf8).base64EncodedString())\r\n\r\n")
        #expect(client.channel.peerAddress?.port == proxy.port)
        client.channel.close()
        try world.run { client.end != nil }
    }

    @Test(
        arguments: [
            ("HTTP/1.1 407 No\r\n\r\n", "407 No (the proxy rejected the configured user and password)"),
            (
                "HTTP/1.1 407 Proxy Authentication Required\r\nX: y\r\n\r\n",
                "to push.example:443: 407 Proxy Authentication Required (the proxy requires a user and a password"
            ),
            ("HTTP/1.0 502 Bad Gateway\r\n\r\n", ": 502 Bad Gateway (the proxy could not reach this host)"),
            ("HTTP/1.1 403 Filtered\r\n\r\n", ": 403 Filtered (the proxy's rules forbid CONNECT to port 443"),
            ("HTTP/1.1 429 Slow down\r\n\r\n", "refused to connect to push.example:443: 429 Slow down"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "the answer to CONNECT is not HTTP/1"),
            ("HTTP/1.1 20\r\n\r\n", "the answer to CONNECT is not HTTP/1"),
            ("HTTP/1.1 +20 OK\r\n\r\n", "refused to connect to push.example:443: +20"),
            ("HTTP/1.1 2é OK\r\n\r\n", "the answer to CONNECT is not HTTP/1"),
            ("HTTP/1.1 500 a\u{1b}[31m\u{7}b\r\n\r\n", "refused to connect to push.example:443: 500 a?[31m?b ("),
            (String(repeating: "x", count: 9_000), "too long"), ("", "ended the connection instead of answering"),
            (nil, "timed out"),
        ] as [(String?, String)])
    func `The error of a refusal by the proxy names the proxy and its reason`(answer: String?, words: String) throws {
        let world = try World()
        let proxy = try Proxy(world.loop, upstream: world.listener.port, answer: answer)
        var options = ChannelOptions()
        if answer == nil { options.dialTimeoutNs = 100_000_000 }
        let client = try world.connect(
            DialTarget(
                host: "push.example", port: 443,
                proxy: .init(
                    host: "127.0.0.1", port: proxy.port,
                    credentials: words.contains("configured user") ? "me:secret" : "")),
            options: options)
        try world.run { client.end != nil }
        #expect(client.end?.kind == .failed)
        #expect(client.end?.text.contains(words) == true, "\(client.end?.text ?? "")")
        #expect(client.end?.text.contains("secret") == false)
        #expect(client.end?.text.contains("proxy 127.0.0.1:\(proxy.port)") == true)
    }

    /// The proxy's reason is part of a log line.
    @Test func `The reason of a proxy is truncated to 200 characters`() {
        let answer = Array("HTTP/1.1 500 \(String(repeating: "é", count: 3_000))\r\n\r\n".utf8)
        let target = DialTarget(host: "::1", port: 443)
        let advice = " (the proxy could not reach this host)"
        #expect(
            ProxyTunnel.verdict(answer, to: target, hasCredentials: false)?.count
                == "refused to connect to [::1]:443: ".count + 200 + advice.count)
    }

    @Test func `The error of an unreachable proxy names the proxy`() throws {
        let world = try World()
        let port = UInt16(Ports.claim())
        let dialer = Dialer(loop: world.loop, resolver: Resolver { _ in .nothing("cannot be resolved") })
        for (host, words) in [("::1", "proxy [::1]:\(port): "), ("nobody", "proxy nobody: cannot be resolved")] {
            let target = DialTarget(host: "push.example", port: 443, proxy: .init(host: host, port: port))
            var text: String?
            dialer.dial(target, timeoutNs: 5_000_000_000) { result in
                if case .failure(let end) = result { text = end.text }
            }
            try world.run { text != nil }
            #expect(text?.hasPrefix(words) == true, "\(text ?? "")")
        }
    }

    @Test func `A CONNECT request has brackets around an IPv6 address`() {
        let target = DialTarget(host: "::1", port: 443)
        #expect(
            ProxyTunnel.request(target, .init(host: "p", port: 1))
                == "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n")
    }
}

/// A proxy on the test's loop. It answers CONNECT and, after a 200, copies bytes in both directions.
private final class Proxy {
    private(set) var request = ""
    var port: UInt16 { listener.port }
    private var listener: Listener!
    private let loop: Loop
    private let upstream: UInt16
    private let answer: String?
    private var kept: [Descriptor] = []
    private var registrations: [Registration] = []

    init(_ loop: Loop, upstream: UInt16, answer: String? = "HTTP/1.1 200 Connection established\r\nVia: us\r\n\r\n")
        throws
    {
        self.loop = loop
        self.upstream = upstream
        self.answer = answer
        listener = try Listener(host: "127.0.0.1", port: 0, loop: loop) { [unowned self] accepted in
            kept.append(accepted.descriptor)
            let raw = accepted.descriptor.raw
            registrations.append(try! loop.register(raw, for: .readable) { [unowned self] _ in talk(raw) })
        }
    }

    deinit { for registration in registrations { loop.unregister(registration) } }

    private func talk(_ client: Int32) {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = Glibc.read(client, &chunk, chunk.count)
        guard count > 0 else { return finish() }
        request += String(decoding: chunk[..<count], as: UTF8.self)
        guard request.hasSuffix("\r\n\r\n"), let answer else { return }
        _ = answer.withCString { Glibc.write(client, $0, strlen($0)) }
        loop.unregister(registrations.removeLast())
        guard answer.hasPrefix("HTTP/1.1 200") else {
            kept.removeAll()
            return
        }
        let server = try! PlainClient(port: upstream)
        let other = Descriptor(adopting: dup(server.raw))
        kept.append(other)
        copy(from: client, to: other.raw)
        copy(from: other.raw, to: client)
    }

    private func copy(from source: Int32, to sink: Int32) {
        registrations.append(
            try! loop.register(source, for: .readable) { [unowned self] _ in
                var chunk = [UInt8](repeating: 0, count: 65_536)
                let count = Glibc.read(source, &chunk, chunk.count)
                guard count > 0 else { return finish() }
                _ = Glibc.write(sink, chunk, count)
            })
    }

    private func finish() {
        for registration in registrations { loop.unregister(registration) }
        registrations.removeAll()
        kept.removeAll()
    }
}

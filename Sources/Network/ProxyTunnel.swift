internal import Bytes
internal import EventLoop

/// An HTTP CONNECT tunnel over a new connection to a proxy (RFC 9110, 9.3.6). Use it on the loop's thread only.
package final class ProxyTunnel {
    /// The maximum size of an answer to CONNECT, in bytes.
    private static let answerLimit = 8 * 1024

    private let descriptor: Descriptor
    private let target: DialTarget
    private let hasCredentials: Bool
    private let loop: Loop
    private var then: ((_ failure: String?) -> Void)?
    private var registration: Registration?
    private var request: ArraySlice<UInt8>
    private var answer: [UInt8] = []

    /// Requests the tunnel. Unless cancelled, calls `then` once, after this call has returned: with `nil` when the
    /// tunnel is open, or with an error.
    init(
        _ descriptor: Descriptor, to target: DialTarget, proxy: DialTarget.Proxy, loop: Loop,
        then: @escaping (_ failure: String?) -> Void
    ) {
        self.descriptor = descriptor
        self.target = target
        hasCredentials = !proxy.credentials.isEmpty
        self.loop = loop
        self.then = then
        request = Array(Self.request(target, proxy).utf8)[...]
        do throws(SystemError) {
            registration = try loop.register(descriptor.raw, for: .writable) { [self] _ in proceed() }
        } catch {
            loop.schedule(afterNs: 0) { [self] in finish("\(error)") }
        }
    }

    func cancel() {
        then = nil
        if let registration { loop.unregister(registration) }
        registration = nil
    }

    static func request(_ target: DialTarget, _ proxy: DialTarget.Proxy) -> String {
        var text = "CONNECT \(target.text) HTTP/1.1\r\nHost: \(target.text)\r\n"
        if !proxy.credentials.isEmpty {
            let credentials = Base64.standard.encode(Array(proxy.credentials.utf8))
            text += "Proxy-Authorization: Basic \(String(decoding: credentials, as: UTF8.self))\r\n"
        }
        return text + "\r\n"
    }

    private func proceed() {
        guard then != nil, let registration else { return }
        if !request.isEmpty {
            switch unsafe request.withUnsafeBytes({ unsafe descriptor.send($0) }) {
            case .bytes(let count): request.removeFirst(count)
            case .wouldBlock, .end: return
            case .failed(let code): return finish(SystemError.text(code))
            }
            if request.isEmpty { loop.update(registration, for: .readable) }
            return
        }
        read()
    }

    /// Reads one byte at a time, because bytes after the answer belong to the tunnel and must stay in the socket.
    private func read() {
        while then != nil {
            var byte: UInt8 = 0
            switch unsafe withUnsafeMutableBytes(of: &byte, { unsafe descriptor.receive(into: $0) }) {
            case .bytes: answer.append(byte)
            case .wouldBlock: return
            case .end: return finish("the proxy ended the connection instead of answering CONNECT")
            case .failed(let code): return finish(SystemError.text(code))
            }
            if answer.suffix(4) == [13, 10, 13, 10] || answer.suffix(2) == [10, 10] {
                return finish(Self.verdict(answer, to: target, hasCredentials: hasCredentials))
            }
            if answer.count >= Self.answerLimit { return finish("the answer to CONNECT is too long") }
        }
    }

    /// Returns `nil` if an answer to CONNECT has a 2xx status, or else an error text with advice.
    package static func verdict(_ answer: [UInt8], to target: DialTarget, hasCredentials: Bool) -> String? {
        let line = String(decoding: answer.prefix { $0 != 13 && $0 != 10 }, as: UTF8.self)
        let words = line.split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), words[1].utf8.count == 3, let status = Int(words[1])
        else {
            return "the answer to CONNECT is not HTTP/1"
        }
        if (200...299).contains(status) { return nil }
        let statusLine = printable(words[1...].joined(separator: " "))
        let advice = advice(status, target, hasCredentials: hasCredentials).map { " (\($0))" } ?? ""
        return "refused to connect to \(target.text): \(statusLine)\(advice)"
    }

    /// Returns the likely reason for a rejection, according to the statuses that tinyproxy and squid use.
    private static func advice(_ status: Int, _ target: DialTarget, hasCredentials: Bool) -> String? {
        switch status {
        case 401, 407:
            hasCredentials
                ? "the proxy rejected the configured user and password"
                : "the proxy requires a user and a password: http://user:password@host:port"
        case 403, 405: "the proxy's rules forbid CONNECT to port \(target.port), to this host, or from this client"
        case 500...504: "the proxy could not reach this host"
        default: nil
        }
    }

    /// Returns the first 200 characters for a log line, with `?` in place of each control character.
    private static func printable(_ text: String) -> String {
        let scalars = text.unicodeScalars.prefix(200).map { $0.properties.generalCategory == .control ? "?" : $0 }
        return String(String.UnicodeScalarView(scalars))
    }

    private func finish(_ failure: String?) {
        let then = self.then
        cancel()
        then?(failure)
    }
}

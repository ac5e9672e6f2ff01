/// An HTTP proxy that connections are made through, by CONNECT.
package struct ProxySettings: Hashable, Sendable {
    /// A name or an address (IPv6 without brackets).
    package var host: String
    package var port: Int
    /// `user:password`; `nil`: the proxy asks for none.
    package var credentials: Secret?

    package init(host: String, port: Int, credentials: Secret? = nil) {
        self.host = host
        self.port = port
        self.credentials = credentials
    }

    /// `http://host:port` with `user:password@` before the host where the proxy wants to know; there `%40` stands for
    /// an @ and so on (RFC 3986, 2.1). `nil`: it is none.
    package init?(url: String) {
        guard let scheme = url.firstRange(of: "://"), url[..<scheme.lowerBound].lowercased() == "http" else {
            return nil
        }
        var rest = url[scheme.upperBound...]
        if rest.last == "/" { rest.removeLast() }
        var credentials: Secret?
        if let at = rest.lastIndex(of: "@") {
            guard let text = percentDecoded(rest[..<at]), text.contains(":"), text.isWithoutControls else { return nil }
            credentials = .text(text)
            rest = rest[rest.index(after: at)...]
        }
        guard let address = NetworkAddress(String(rest)), address.port > 0 else { return nil }
        self.init(host: address.host, port: address.port, credentials: credentials)
    }
}

extension ProxySettings {
    /// `proxy`, or the file that `proxy_file` names and that holds the same; neither: `nil`. What is wrong is said
    /// without the text, which may hold a password.
    init?(in section: inout Section) {
        let inline = section.value("proxy")
        let file = section.value("proxy_file")
        if inline != nil, let file {
            file.refuse("give either proxy or proxy_file")
            return nil
        }
        guard let value = inline ?? file else { return nil }
        guard let text = inline.map({ $0.secretText() }) ?? value.fileText() else { return nil }
        guard let proxy = ProxySettings(url: text) else {
            value.refuse("expected http://host:port, or http://user:password@host:port")
            return nil
        }
        self = proxy
    }
}

private func percentDecoded(_ text: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "%") else {
            bytes.append(byte)
            continue
        }
        guard let high = rest.popFirst(), let low = rest.popFirst(),
            let value = UInt8(String(decoding: [high, low], as: UTF8.self), radix: 16)
        else { return nil }
        bytes.append(value)
    }
    return String(validating: bytes, as: UTF8.self)
}

extension String {
    fileprivate var isWithoutControls: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }
}

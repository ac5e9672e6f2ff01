package struct ProxySettings: Hashable, Sendable {
    /// The proxy's host: a name or an address (IPv6 without brackets).
    package var host: String
    package var port: Int
    /// The credentials as `user:password`, or `nil` if the proxy needs none.
    package var credentials: Secret?
}

extension ProxySettings {
    /// Parses `http://host:port` or `http://user:password@host:port`, with percent-encoded credentials (RFC 3986,
    /// section 2.1).
    init?(url: String) {
        guard let parts = url.wholeMatch(of: /(?i)http:\/\/(?:(.*)@)?(.*?)\/?/),
            let address = NetworkAddress(String(parts.2)), address.port > 0
        else { return nil }
        (host, port) = (address.host, address.port)
        if let encoded = parts.1 {
            guard let text = percentDecoded(encoded), text.contains(":"),
                text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F })
            else { return nil }
            credentials = .text(text)
        }
    }

    /// Reads `proxy`, or the file that `proxy_file` names. Errors do not show the proxy's URL, since it may contain a
    /// password.
    static func read(_ section: inout Section) -> ProxySettings? {
        let inline = section.value("proxy")
        let file = section.value("proxy_file")
        if inline != nil, let file { return file.rejected("give either proxy or proxy_file") }
        guard let text = inline.map({ $0.text("the proxy's URL") }) ?? file?.fileText() else { return nil }
        guard let proxy = ProxySettings(url: text) else {
            return (inline ?? file)?.rejected("expected http://host:port, or http://user:password@host:port")
        }
        let server = "\(proxy.credentials == nil ? "" : "(set)@")\(NetworkAddress(host: proxy.host, port: proxy.port))"
        section.reading.settings.append((section.path(of: "proxy"), Setting(secret: text, shownAs: "http://\(server)")))
        return proxy
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

package struct ProxySettings: Hashable, Sendable {
    /// The proxy's host: a name or an address (IPv6 without brackets).
    package var host: String
    package var port: Int
    /// The credentials as `user:password`, or `nil` if the proxy needs none.
    package var credentials: Secret?

    package init(host: String, port: Int, credentials: Secret? = nil) {
        self.host = host
        self.port = port
        self.credentials = credentials
    }

    /// Parses `http://host:port` or `http://user:password@host:port`, with percent-encoded credentials (RFC 3986,
    /// section 2.1).
    package init?(url: String) {
        guard let parts = url.wholeMatch(of: /(?i)http:\/\/(?:(.*)@)?(.*?)\/?/),
            let address = NetworkAddress(String(parts.2)), address.port > 0
        else { return nil }
        var credentials: Secret?
        if let encoded = parts.1 {
            guard let text = percentDecoded(encoded), text.contains(":"),
                text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F })
            else { return nil }
            credentials = .text(text)
        }
        self.init(host: address.host, port: address.port, credentials: credentials)
    }
}

extension ProxySettings {
    /// Reads `proxy`, or the file that `proxy_file` names. Errors do not show the proxy's URL, since it may contain a
    /// password.
    init?(in section: inout Section) {
        let inline = section.value("proxy")
        let file = section.value("proxy_file")
        if inline != nil, let file {
            file.refuse("give either proxy or proxy_file")
            return nil
        }
        guard let value = inline ?? file else { return nil }
        guard let text = inline.map({ $0.text("the proxy's URL") }) ?? value.fileText() else { return nil }
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

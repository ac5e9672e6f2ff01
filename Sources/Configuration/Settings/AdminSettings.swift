/// `admin`.
package struct AdminSettings: Hashable, Sendable {
    /// Where the pages are served; `nil`: nowhere. Port 0: any free one.
    package var listen: NetworkAddress? = NetworkAddress(host: "127.0.0.1", port: 9_464)

    package init() {}
}

extension AdminSettings {
    mutating func read(_ section: inout Section) {
        section.read("listen", into: &listen) { value -> NetworkAddress?? in
            let expectation = "host:port, such as 127.0.0.1:9464 or [::1]:9464, or off"
            guard let text = value.text(expectation, where: { $0 == "off" || NetworkAddress($0) != nil }) else {
                return nil
            }
            return .some(NetworkAddress(text))
        }
    }
}

/// A host and a port, as `host:port` or `[IPv6]:port`.
package struct NetworkAddress: Hashable, Sendable, CustomStringConvertible {
    /// A name or an address (IPv6 without brackets).
    package var host: String
    /// 0 to 65,535.
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// `nil`: it is none.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard !digits.isEmpty, digits.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }),
            let port = Int(digits), port <= 65_535
        else { return nil }
        var host = text[..<colon]
        if host.first == "[", host.last == "]" {
            host = host.dropFirst().dropLast()
            guard host.contains(":") else { return nil }
        } else if host.contains(":") {
            return nil
        }
        guard isHostName(String(host)) else { return nil }
        self.init(host: String(host), port: port)
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

extension Value {
    func topicName() -> String? {
        text("a topic's name: 1 to 249 letters, digits, dots, hyphens or underscores", where: isTopicName)
    }

    /// Reads a topic name, or a regular expression that starts with `^`.
    func topicNameOrPattern() -> String? {
        guard let text = text("a topic's name, or a pattern that starts with ^") else { return nil }
        guard text.hasPrefix("^") else { return topicName() }
        do throws(InvalidText) {
            _ = try Pattern(text)
            return text
        } catch {
            return rejected("\(quoted(text)) is not a POSIX extended regular expression: \(error)")
        }
    }

    /// Reads a host name or an address, and rejects a URL.
    func hostName() -> String? {
        text("a host's name or address, without https:// and port", where: isHostName)
    }
}

/// Returns whether the text is a host name or an address (IPv6 without brackets).
func isHostName(_ text: String) -> Bool {
    guard !text.isEmpty, text.utf8.count <= 253 else { return false }
    let isAddress =
        text.count { $0 == ":" } > 1
        && text.unicodeScalars.allSatisfy { $0.properties.isASCIIHexDigit || ":.%".unicodeScalars.contains($0) }
    return isAddress || text.unicodeScalars.allSatisfy { $0.isASCIIWord || $0 == "." || $0 == "-" }
}

/// Returns whether Kafka allows a non-empty topic name (`org.apache.kafka.common.internals.Topic`).
func isTopicName(_ text: String) -> Bool {
    text.utf8.count <= 249 && text != "." && text != ".."
        && text.unicodeScalars.allSatisfy { $0.isASCIIWord || $0 == "." || $0 == "-" }
}

extension Unicode.Scalar {
    var isASCIIWord: Bool {
        switch self {
        case "a"..."z", "A"..."Z", "0"..."9", "_": true
        default: false
        }
    }
}

extension String {
    var isPrintableASCII: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } }
}

/// A host and a port, written as `host:port` or `[IPv6]:port`.
package struct NetworkAddress: Hashable, Sendable, CustomStringConvertible {
    /// The host: a name or an address (IPv6 without brackets).
    package var host: String
    /// The port, from 0 to 65,535.
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    package init?(_ text: String) {
        guard let match = text.wholeMatch(of: /(?:\[(.*:.*)\]|([^:]*)):([0-9]+)/), let port = Int(match.3),
            case let host = String(match.1 ?? match.2 ?? ""), port <= 65_535, isHostName(host)
        else { return nil }
        self.init(host: host, port: port)
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

internal import HTTP2

/// What a trace may say of texts: it is sent to others, so secrets and what names people or devices are cut.
enum TraceText {
    /// Fields of a request that are kept as they are.
    private static let plain: Set<String> = [
        ":method", ":scheme", ":authority", "apns-topic", "apns-push-type", "apns-priority", "apns-expiration",
        "apns-id",
        "apns-request-id", "content-type", "content-length", "user-agent",
    ]
    /// A longer run of hex digits is cut: an id of APNs' (a UUID) has at most 12 between its hyphens, a device token 64
    /// or more.
    private static let hexLimit = 31
    /// A longer run of the characters of Base64 and of JSON Web Tokens is cut.
    private static let runLimit = 64
    /// What is left of what is cut.
    private static let keptCount = 8

    /// A field's value in a request.
    static func sent(_ name: String, _ value: [UInt8]) -> String {
        let text = String(decoding: value, as: UTF8.self)
        if plain.contains(name) { return text }
        switch name {
        case ":path":
            let prefix = "/3/device/"
            return text.hasPrefix(prefix) ? prefix + cut(text.dropFirst(prefix.count)) : received(value)
        case "authorization":
            let scheme = text.prefix { $0 != " " }
            return scheme.count < text.count ? "\(scheme) (\(value.count) bytes)" : "(\(value.count) bytes)"
        default: return "(\(value.count) bytes)"
        }
    }

    /// What a peer said: as it is, but for what looks like a device token or a credential, in case it repeats what it
    /// was sent.
    static func received(_ bytes: some Collection<UInt8>) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        var result = ""
        var run = Substring()
        func flush() {
            let isHex = run.utf8.count > hexLimit && longestHexRun(run) > hexLimit
            result += isHex || run.utf8.count > runLimit ? cut(run) : String(run)
        }
        for character in text {
            if character.isASCII, character.isLetter || character.isNumber || "-_.~+/=".contains(character) {
                run.append(character)
            } else {
                flush()
                run = Substring()
                result.append(character)
            }
        }
        flush()
        return result
    }

    private static func longestHexRun(_ text: Substring) -> Int {
        var longest = 0
        var current = 0
        for character in text {
            current = character.isHexDigit ? current + 1 : 0
            longest = max(longest, current)
        }
        return longest
    }

    private static func cut(_ text: Substring) -> String {
        text.utf8.count <= keptCount ? String(text) : "\(text.prefix(keptCount))… (\(text.utf8.count) characters)"
    }
}

/// What is sent: the same for h2load, which posts it, and for the topic, which holds it.
struct Traffic: Sendable {
    static let bundleID = "com.example.bench"
    static let pushType = "alert"

    /// Device tokens of 64 hex digits, in the order of use; then from the start again.
    let tokens: [String]

    init(devices: Int) {
        // A token is random to HPACK: its Huffman code sees 64 hex digits, as with Apple's.
        var state: UInt64 = 0x9E37_79B9_7F4A_7C15
        tokens = (0..<devices).map { _ in
            (0..<4).map { _ in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return padded(String(state ^ state >> 29, radix: 16), 16)
            }.joined()
        }
    }

    /// As large for every number below a billion.
    static func payload(_ number: Int) -> String {
        let order = padded(String(number), 9)
        return
            "{\"aps\":{\"alert\":{\"title\":\"Order \(order)\",\"body\":\"Your parcel is on its way and arrives today\"},"
            + "\"badge\":1,\"sound\":\"default\"},\"order\":\"\(order)\"}"
    }

    static var payloadSize: Int { payload(0).utf8.count }
}

/// A number's text with zeros before it.
private func padded(_ text: String, _ width: Int) -> String {
    String(repeating: "0", count: max(0, width - text.utf8.count)) + text
}

import Glibc

/// An error that ends the bench; one line that says what to do.
struct BenchFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Writes text to standard output.
func say(_ text: String) {
    text.withCString { _ = write(STDOUT_FILENO, $0, strlen($0)) }
}

/// The requests of the floors and the parts, equal to those that the driver writes to topics.
enum Traffic {
    static let bundleID = "com.example.bench"
    static let pushType = "alert"

    /// A placeholder for a provider token, about as long as the worker's: header, claims and 64 bytes of signature in
    /// base64url.
    static let authorization = "bearer \(String(repeating: "eyJhbGciOiJFUzI1NiIs", count: 9))"

    /// Has the same size for every number below a billion.
    static func payload(_ number: Int) -> String {
        let text = String(number)
        let order = String(repeating: "0", count: 9 - text.utf8.count) + text
        return
            "{\"aps\":{\"alert\":{\"title\":\"Order \(order)\",\"body\":\"Your parcel is on its way and arrives today\"},"
            + "\"badge\":1,\"sound\":\"default\"},\"order\":\"\(order)\"}"
    }
}

/// Makes device tokens, the same ones each time. They are random to HPACK, whose Huffman code sees 64 hex digits, as
/// with Apple's.
struct TokenSource {
    private var state: UInt64 = 0x9E37_79B9_7F4A_7C15

    mutating func next() -> String {
        (0..<4).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let text = String(state ^ state >> 29, radix: 16)
            return String(repeating: "0", count: 16 - text.utf8.count) + text
        }.joined()
    }
}

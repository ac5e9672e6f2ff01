/// A one-line error that ends the bench.
struct BenchFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// The bundle id and payloads of the requests in the baseline programs (`Floors`) and the component benchmarks
/// (`Parts`). The driver uses the same bundle id and payloads in the requests that it produces for the worker.
enum Traffic {
    static let bundleID = "com.example.bench"

    /// Returns a payload that contains a number, with the same size for every number below a billion.
    static func payload(_ number: Int) -> String {
        let text = String(number)
        let order = String(repeating: "0", count: 9 - text.utf8.count) + text
        return
            "{\"aps\":{\"alert\":{\"title\":\"Order \(order)\",\"body\":\"Your parcel is on its way and arrives today\"},"
            + "\"badge\":1,\"sound\":\"default\"},\"order\":\"\(order)\"}"
    }
}

/// A generator of device tokens, which creates the same tokens in each run. HPACK's Huffman code compresses them like
/// Apple's random tokens.
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

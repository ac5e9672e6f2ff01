/// What the floors post and the parts are fed with: the same that `driver/requests` writes to topics.
enum Traffic {
    static let bundleID = "com.example.bench"
    static let pushType = "alert"

    /// A provider token's stand-in, about as long as the worker's: header, claims and 64 bytes of signature in
    /// base64url.
    static let authorization = "bearer \(String(repeating: "eyJhbGciOiJFUzI1NiIs", count: 9))"

    /// As large for every number below a billion.
    static func payload(_ number: Int) -> String {
        let order = padded(String(number), 9)
        return
            "{\"aps\":{\"alert\":{\"title\":\"Order \(order)\",\"body\":\"Your parcel is on its way and arrives today\"},"
            + "\"badge\":1,\"sound\":\"default\"},\"order\":\"\(order)\"}"
    }

}

/// Makes device tokens, the same ones each time. A token is random to HPACK: its Huffman code sees 64 hex digits, as
/// with Apple's.
struct TokenSource {
    static let size = 64
    private var state: UInt64 = 0x9E37_79B9_7F4A_7C15

    /// Writes the next one's digits; returns how many.
    mutating func next(into bytes: UnsafeMutablePointer<UInt8>) -> Int {
        for word in 0..<4 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let mixed = state ^ state >> 29
            for place in 0..<16 {
                let digit = UInt8(truncatingIfNeeded: mixed >> UInt64(60 - 4 * place)) & 15
                bytes[16 * word + place] = digit < 10 ? 48 + digit : 87 + digit
            }
        }
        return Self.size
    }
}

/// A payload whose number is replaced in place, so that a million of them need no million strings.
struct PayloadText {
    private(set) var bytes: [UInt8]
    private let places: [Int]
    private static let width = 9

    /// `Traffic.payload`. Each run of nine zeros in it is a place of the number.
    init() {
        bytes = Array(Traffic.payload(0).utf8)
        var places: [Int] = []
        var at = 0
        while at + Self.width <= bytes.count {
            let isPlace = bytes[at..<(at + Self.width)].allSatisfy { $0 == UInt8(ascii: "0") }
            if isPlace { places.append(at) }
            at += isPlace ? Self.width : 1
        }
        self.places = places
    }

    mutating func set(_ number: Int) {
        for place in places {
            var rest = number
            for digit in stride(from: place + Self.width - 1, through: place, by: -1) {
                bytes[digit] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            }
        }
    }
}

/// A number's text with zeros before it.
func padded(_ text: String, _ width: Int) -> String {
    String(repeating: "0", count: max(0, width - text.utf8.count)) + text
}

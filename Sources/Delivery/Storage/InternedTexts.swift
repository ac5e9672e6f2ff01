/// The rare words that answers bring (a reason nobody knows, `HTTP 404`), each kept once and for good, up to a limit.
struct InternedTexts: ~Copyable {
    static let countLimit = 1_000
    static let lengthLimit = 100

    private var numbers: [String: UInt16] = [:]
    private var statusNumbers: [UInt16: UInt16] = [:]
    private var texts: [UnsafeRawBufferPointer] = [UnsafeRawBufferPointer(start: nil, count: 0)]

    init() {}

    deinit {
        for text in texts { text.deallocate() }
    }

    /// 0 is no text.
    subscript(number: UInt16) -> UnsafeRawBufferPointer { texts[Int(number)] }

    /// The number of a text, cut at the limit, between two characters. When too many are known already: 0.
    mutating func number(of whole: String) -> UInt16 {
        let text = Self.cut(whole)
        if let number = numbers[text] { return number }
        guard texts.count < Self.countLimit, !text.isEmpty else { return 0 }
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: text.utf8.count, alignment: 1)
        bytes.copyBytes(from: text.utf8)
        texts.append(UnsafeRawBufferPointer(bytes))
        let number = UInt16(texts.count - 1)
        numbers[text] = number
        return number
    }

    /// At most `lengthLimit` bytes, whatever they are.
    private static func cut(_ text: String) -> String {
        guard text.utf8.count > lengthLimit else { return text }
        var end = text.utf8.index(text.utf8.startIndex, offsetBy: lengthLimit)
        while end.samePosition(in: text.unicodeScalars) == nil { end = text.utf8.index(before: end) }
        return String(text[..<end])
    }

    /// `HTTP <status>`.
    mutating func number(ofStatus status: UInt16) -> UInt16 {
        if let number = statusNumbers[status] { return number }
        let number = number(of: "HTTP \(status)")
        statusNumbers[status] = number
        return number
    }
}

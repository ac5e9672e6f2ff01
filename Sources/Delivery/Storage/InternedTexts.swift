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

    /// The number of a text, cut at the limit. When too many are known already: 0.
    mutating func number(of text: String) -> UInt16 {
        if let number = numbers[text] { return number }
        guard text.utf8.count <= Self.lengthLimit else {
            return number(of: String(decoding: text.utf8.prefix(Self.lengthLimit), as: UTF8.self))
        }
        guard texts.count < Self.countLimit, !text.isEmpty else { return 0 }
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: text.utf8.count, alignment: 1)
        bytes.copyBytes(from: text.utf8)
        texts.append(UnsafeRawBufferPointer(bytes))
        let number = UInt16(texts.count - 1)
        numbers[text] = number
        return number
    }

    /// `HTTP <status>`.
    mutating func number(ofStatus status: UInt16) -> UInt16 {
        if let number = statusNumbers[status] { return number }
        let number = number(of: "HTTP \(status)")
        statusNumbers[status] = number
        return number
    }
}

/// The rare words that answers bring (a reason nobody knows, `HTTP 404`), each kept once and for good, up to a limit.
struct InternedTexts: ~Copyable {
    static let countLimit = 10_000
    /// New ones that one app may bring: a host that invents them takes nothing from other apps.
    static let appLimit = 100
    static let lengthLimit = 100

    private var numbers: [String: UInt16] = [:]
    private var statusNumbers: [UInt16: UInt16] = [:]
    /// How many each app brought first.
    private var countByApp: [AppIndex: Int] = [:]
    private var texts: [UnsafeRawBufferPointer] = [UnsafeRawBufferPointer(start: nil, count: 0)]

    init() {}

    deinit {
        for text in texts { text.deallocate() }
    }

    /// 0 is no text.
    subscript(number: UInt16) -> UnsafeRawBufferPointer { texts[Int(number)] }

    /// The number of a text, cut at the limit, between two characters. When too many are known already,
    /// or came from this app first: 0.
    mutating func number(of whole: String, from app: AppIndex) -> UInt16 {
        let text = Self.cut(whole)
        if let number = numbers[text] { return number }
        let count = countByApp[app, default: 0]
        guard texts.count < Self.countLimit, count < Self.appLimit, !text.isEmpty else { return 0 }
        countByApp[app] = count + 1
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
    mutating func number(ofStatus status: UInt16, from app: AppIndex) -> UInt16 {
        if let number = statusNumbers[status] { return number }
        let number = number(of: "HTTP \(status)", from: app)
        if number != 0 { statusNumbers[status] = number }
        return number
    }
}

/// Hash and comparison of short byte strings, eight bytes a step.
enum BytesHash {
    static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
        var hash = seed ^ 0x9E37_79B9_7F4A_7C15 ^ UInt64(bytes.count)
        var index = 0
        while index + 8 <= bytes.count {
            hash = mix(hash ^ bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            index += 8
        }
        var rest: UInt64 = 0
        while index < bytes.count {
            rest = rest << 8 | UInt64(bytes[index])
            index += 1
        }
        return mix(hash ^ rest ^ 0xD6E8_FEB8_6659_FD93)
    }

    @inline(__always)
    private static func mix(_ value: UInt64) -> UInt64 {
        let product = value.multipliedFullWidth(by: 0xA076_1D64_78BD_642F)
        return product.high ^ product.low
    }

    static func isEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count else { return false }
        var index = 0
        while index + 8 <= left.count {
            if left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                != right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            {
                return false
            }
            index += 8
        }
        while index < left.count {
            if left[index] != right[index] { return false }
            index += 1
        }
        return true
    }
}

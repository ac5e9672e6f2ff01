/// Functions that validate the values of headers in a request to APNs.
///
/// Only printable ASCII is allowed. Other bytes may make a request malformed (RFC 9113, 8.2.1), so that APNs could
/// close the connection.
enum HeaderCheck {
    /// Returns whether `value` is 1 to `limit` bytes of printable ASCII, without quotes around it or spaces at the
    /// ends.
    @inline(__always)
    static func isClean(_ value: UnsafeRawBufferPointer, limit: Int) -> Bool {
        guard let base = value.baseAddress, value.count > 0, value.count <= limit else { return false }
        let (first, last) = (base.load(as: UInt8.self), base.load(fromByteOffset: value.count &- 1, as: UInt8.self))
        guard first != 0x20, last != 0x20, !ForeignForm.isQuoted(value) else { return false }
        var index = 0
        while value.count &- index >= 8 {
            // A high bit marks a byte that is below 0x20, above 0x7E or not ASCII. Only a marked byte can borrow from
            // or carry into the next byte.
            let word = (base + index).loadUnaligned(as: UInt64.self)
            let marked = (word &- 0x2020_2020_2020_2020) | (word &+ 0x0101_0101_0101_0101) | word
            guard marked & 0x8080_8080_8080_8080 == 0 else { return false }
            index &+= 8
        }
        while index < value.count {
            guard base.load(fromByteOffset: index, as: UInt8.self) &- 0x20 <= 0x5E else { return false }
            index &+= 1
        }
        return true
    }

    /// Returns a decimal number of at most 19 digits, without a sign, or `nil` for another text or a number above
    /// `Int64.max`.
    static func unsigned(_ value: UnsafeRawBufferPointer) -> Int64? {
        // 19 nines are less than 2 to the power of 64, so the multiplication cannot overflow.
        guard value.count > 0, value.count <= 19 else { return nil }
        var number: UInt64 = 0
        for byte in value {
            guard byte &- 0x30 < 10 else { return nil }
            number = number &* 10 &+ UInt64(byte &- 0x30)
        }
        return Int64(exactly: number)
    }

    /// Returns a priority, or `nil` for a value other than 1, 5 and 10. Source: "Sending notification requests to
    /// APNs", apns-priority.
    static func priority(_ value: UnsafeRawBufferPointer) -> UInt8? {
        switch (value.count, value.first) {
        case (1, 0x31): 1
        case (1, 0x35): 5
        case (2, 0x31): value[1] == 0x30 ? 10 : nil
        default: nil
        }
    }

    /// Returns the push type that the topic's suffix belongs to, or `nil` if the topic does not end with the suffix of
    /// a push type.
    static func pushType(ofTopic topic: UnsafeRawBufferPointer) -> PushType? {
        suffixes.first { _, suffix in
            let start = topic.count - suffix.utf8CodeUnitCount
            return start > 0 && suffix.spells(topic.part(start, topic.count))
        }?.type
    }

    private static let suffixes = PushType.allCases.compactMap { type in type.suffix.map { (type: type, suffix: $0) } }

    static func pushType(_ value: UnsafeRawBufferPointer) -> PushType? {
        let type: PushType
        switch (value.count, value.first) {
        case (5, UInt8(ascii: "a")): type = .alert
        case (10, UInt8(ascii: "b")): type = .background
        case (12, UInt8(ascii: "c")): type = .complication
        case (8, UInt8(ascii: "c")): type = .controls
        case (12, UInt8(ascii: "f")): type = .fileprovider
        case (12, UInt8(ascii: "l")): type = .liveactivity
        case (8, UInt8(ascii: "l")): type = .location
        case (3, UInt8(ascii: "m")): type = .mdm
        case (10, UInt8(ascii: "p")): type = .pushtotalk
        case (4, UInt8(ascii: "v")): type = .voip
        case (7, UInt8(ascii: "w")): type = .widgets
        default: return nil
        }
        return type.text.spells(value) ? type : nil
    }

    static func environment(_ value: UnsafeRawBufferPointer) -> PushEnvironment? {
        PushEnvironment.allCases.first { $0.text.spells(value) }
    }
}

import JSON

/// What a producer's serializer puts around texts that this worker reads as they are: it is recognised so that a record
/// that is refused for it says so.
enum ForeignForm {
    static let quote = UInt8(ascii: "\"")

    static let quotedToken: StaticString =
        "the device token is in quotes, as a JSON serializer writes a string; use a plain string serializer"

    /// The schema id of the five bytes that the serializers of a Schema Registry put before what they write: a magic
    /// byte of 0, then the id, big-endian; `nil`: it does not begin so. JSON never begins with a byte of 0.
    ///
    /// Source: Confluent's documentation, "Formats, Serializers, and Deserializers", Wire format.
    static func schemaID(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= prefixCount, bytes[0] == 0 else { return nil }
        return Int(UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: 1, as: UInt32.self)))
    }

    static let prefixCount = 5

    /// Whether it is hex digits in quotes.
    static func isQuotedHex(_ text: UnsafeRawBufferPointer) -> Bool {
        text.count > 2 && text[0] == quote && text[text.count - 1] == quote && Hex.isHex(text.part(1, text.count - 1))
    }

    /// Whether it ends with a device token, in quotes or without. What else begins with a byte of 0 is some number or
    /// id.
    static func endsWithToken(_ key: UnsafeRawBufferPointer) -> Bool {
        let end = key.last == quote ? key.count - 1 : key.count
        return end >= prefixCount + 64 && Hex.isHex(key.part(end - 64, end))
    }
}

extension ParserScratch {
    /// What is foreign about a value that is not JSON; `nil`: nothing that is known.
    mutating func foreign(_ value: UnsafeRawBufferPointer) -> Detail? {
        if let id = ForeignForm.schemaID(value) {
            return Detail(
                "the value begins with a Schema Registry prefix",
                decimal("magic byte 0, schema id ", id, "; use a plain string/bytes serializer"))
        }
        if value.count >= 3, value[0] == 0xEF, value[1] == 0xBB, value[2] == 0xBF {
            return Detail("the value begins with a byte order mark (EF BB BF); write UTF-8 without it")
        }
        return nil
    }

    /// What is foreign about a key that is to be a device token; `nil`: nothing that is known.
    mutating func foreign(key: UnsafeRawBufferPointer) -> Detail? {
        if ForeignForm.isQuotedHex(key) {
            return Detail(
                "no push-device-token, and the key is a device token in quotes, as a JSON serializer writes a string; use a plain string serializer for keys"
            )
        }
        guard let id = ForeignForm.schemaID(key), ForeignForm.endsWithToken(key) else { return nil }
        return Detail(
            "no push-device-token, and the key begins with a Schema Registry prefix",
            decimal("magic byte 0, schema id ", id, "; use a plain string serializer for keys"))
    }

    /// Why a value is not JSON, and where.
    mutating func detail(of error: JSONError) -> Detail {
        Detail(error.kind.text, decimal("at byte ", error.offset))
    }
}

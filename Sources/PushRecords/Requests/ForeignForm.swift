import JSON

/// Functions that detect unsuitable serializers, so that the detail of a rejected record names the mistake.
enum ForeignForm {
    static let quote = UInt8(ascii: "\"")

    static let quotedToken: StaticString =
        "the device token is in quotes, as a JSON serializer writes a string; use a plain string serializer"

    /// Returns the schema id if the bytes begin with the prefix of a Schema Registry serializer: a zero byte, which
    /// never begins JSON, then the id as a big-endian 32-bit number.
    ///
    /// Source: Confluent's documentation, "Formats, Serializers, and Deserializers", Wire format.
    static func schemaID(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= prefixCount, bytes[0] == 0 else { return nil }
        return Int(UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: 1, as: UInt32.self)))
    }

    static let prefixCount = 5

    static let quotedHeader: StaticString =
        "a value is in quotes, as a JSON serializer writes a string; use a plain string serializer"

    /// Returns whether the text consists of hex digits in quotes.
    static func isQuotedHex(_ text: UnsafeRawBufferPointer) -> Bool {
        text.isQuoted && text.count > 2 && Hex.isHex(text.part(1, text.count - 1))
    }

    /// Returns whether a key ends with a device token, with or without quotes. A key that begins with a zero byte but
    /// does not end with a token may be a binary number or id, so the worker does not explain it.
    static func endsWithToken(_ key: UnsafeRawBufferPointer) -> Bool {
        let end = key.last == quote ? key.count - 1 : key.count
        return end >= prefixCount + 64 && Hex.isHex(key.part(end - 64, end))
    }
}

extension RequestParser.Scratch {
    /// Returns an explanation of a value that is not JSON, or `nil` if the value begins with neither a Schema Registry
    /// prefix nor a byte order mark.
    mutating func foreign(_ value: UnsafeRawBufferPointer) -> Detail? {
        if let id = ForeignForm.schemaID(value) {
            return Detail(
                "the value begins with a Schema Registry prefix",
                add("magic byte 0, schema id \(id); use a plain string/bytes serializer") ?? .nothing)
        }
        if value.starts(with: [0xEF, 0xBB, 0xBF]) {
            return Detail("the value begins with a byte order mark (EF BB BF); write UTF-8 without a byte order mark")
        }
        return nil
    }

    /// Returns an explanation of a key that contains a device token in another serializer's format, or `nil` for any
    /// other key.
    mutating func foreign(key: UnsafeRawBufferPointer) -> Detail? {
        if ForeignForm.isQuotedHex(key) {
            return Detail(
                "the record has no push-device-token, and its key is a device token in quotes, as a JSON serializer writes it; use a plain string serializer for keys"
            )
        }
        guard let id = ForeignForm.schemaID(key), ForeignForm.endsWithToken(key) else { return nil }
        return Detail(
            "the record has no push-device-token, and its key begins with a Schema Registry prefix",
            add("magic byte 0, schema id \(id); use a plain string serializer for keys") ?? .nothing)
    }

    /// Returns the detail of a JSON error, with the position of the error.
    mutating func detail(of error: JSONError) -> Detail {
        Detail(error.kind.text, add("at byte \(error.offset)") ?? .nothing)
    }
}

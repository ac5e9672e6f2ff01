/// The reason why bytes are not the expected JSON, and the position of the error.
package struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Kind: UInt8, Sendable {
        case endOfInput
        case unexpectedByte
        case trailingBytes
        /// Nested deeper than `JSONScanner.depthLimit`.
        case tooDeep
        case controlCharacter
        /// An invalid escape in a string (RFC 8259, 7).
        case badEscape
        /// Invalid UTF-8 (RFC 3629), such as an overlong form, a surrogate or an incomplete sequence.
        case badUTF8
        case wrongKind
        case notAnInteger

        package var text: StaticString {
            switch self {
            case .endOfInput: "ends too early"
            case .unexpectedByte: "unexpected byte"
            case .trailingBytes: "more bytes after the value"
            case .tooDeep: "nested deeper than 64 levels"
            case .controlCharacter: "control character in a string"
            case .badEscape: "bad escape in a string"
            case .badUTF8: "not UTF-8"
            case .wrongKind: "another kind of value was expected"
            case .notAnInteger: "not a 64-bit integer"
            }
        }
    }

    package var kind: Kind
    /// The offset in bytes from the start of the input.
    package var offset: Int

    package var description: String { "\(kind.text) at byte \(offset)" }
}

/// The type of a JSON value.
package enum JSONKind: UInt8, Sendable {
    case object, array, string, number, bool, null
}

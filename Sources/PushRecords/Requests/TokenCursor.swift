import JSON

/// A place in a JSON list of device tokens, so that a fan-out can be admitted piece by piece.
///
/// The position counts bytes from the start of `ParsedRequest.tokenList`; it may be kept, and the reading resumed, on a
/// copy of those bytes. The list must be one that `RequestParser` accepted, unchanged.
package struct TokenCursor {
    package var position: Int
    /// The index of the token that `next` reads next.
    package var index: Int32

    @inlinable package init() {
        position = 0
        index = 0
    }

    /// Reads the next token into `buffer` (at least `DeviceToken.textLimit` bytes); `nil` at the end of the list.
    package mutating func next(
        in list: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> DeviceToken.Normalized? {
        guard let text = JSONStringList.next(in: list, after: &position) else { return nil }
        index += 1
        let read = DeviceToken.normalize(text, into: buffer)
        guard read.failure != .none, JSONText(checked: text).hasEscapes else { return read }
        // Nobody escapes hex digits, but JSON allows it.
        return withUnsafeTemporaryAllocation(byteCount: DeviceToken.textLimit + 1, alignment: 1) { resolved in
            guard let count = JSONText(checked: text).resolve(into: resolved) else { return read }
            return DeviceToken.normalize(UnsafeRawBufferPointer(rebasing: resolved[..<count]), into: buffer)
        }
    }
}

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
        fatalError("not yet")
    }
}

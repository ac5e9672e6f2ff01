/// Device tokens: 1 to 100 bytes, written in hex.
package enum DeviceToken {
    /// Most bytes of a token's text, and of the result key of a token that is not one.
    package static let textLimit = 200

    /// How a token looks in its buffer.
    package struct Normalized {
        /// How many bytes of the buffer are used.
        package var count: Int
        /// `.none` when it is a token, now in lower case; `.missingDeviceToken` when it is empty; else
        /// `.badDeviceToken`, and the buffer has it as written, cut at `textLimit` bytes.
        package var failure: ReasonCode

        @inlinable package init(count: Int, failure: ReasonCode) {
            self.count = count
            self.failure = failure
        }
    }

    /// Checks `text` and writes it in lower case to `buffer`, which has at least `textLimit` bytes.
    package static func normalize(
        _ text: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> Normalized {
        precondition(buffer.count >= textLimit, "room for a device token's text")
        guard let source = text.baseAddress, let target = buffer.baseAddress, text.count > 0 else {
            return Normalized(count: 0, failure: .missingDeviceToken)
        }
        if text.count <= textLimit, text.count & 1 == 0, Hex.lowercase(source, count: text.count, into: target) {
            return Normalized(count: text.count, failure: .none)
        }
        let count = min(text.count, textLimit)
        target.copyMemory(from: source, byteCount: count)
        return Normalized(count: count, failure: .badDeviceToken)
    }
}

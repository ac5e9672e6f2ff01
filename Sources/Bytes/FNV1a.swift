/// The 64-bit hash FNV-1a (Fowler, Noll and Vo; RFC 9923): the same everywhere and for ever, so it may be stored and
/// sent. No protection against whoever looks for collisions.
package struct FNV1a: Sendable {
    package var value: UInt64

    @inlinable package init() { value = 0xCBF2_9CE4_8422_2325 }

    @inlinable package mutating func add(_ byte: UInt8) { value = (value ^ UInt64(byte)) &* 0x100_0000_01B3 }

    @inlinable package mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { add(byte) }
    }

    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var hash = value
        for index in 0..<bytes.count { hash = unsafe (hash ^ UInt64(bytes[index])) &* 0x100_0000_01B3 }
        value = hash
    }

    /// Eight bytes, the lowest first.
    @inlinable package mutating func add(_ word: UInt64) {
        for shift in 0..<8 as Range<UInt64> { add(UInt8(truncatingIfNeeded: word >> (shift * 8))) }
    }
}

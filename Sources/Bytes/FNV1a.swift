/// The 64-bit hash FNV-1a (Fowler, Noll and Vo; RFC 9923): the same everywhere and for ever, so it may be stored and sent.
/// No protection against whoever looks for collisions.
package struct FNV1a: Sendable {
    package private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    package init() {}

    package mutating func add(_ byte: UInt8) { value = (value ^ UInt64(byte)) &* 0x100_0000_01B3 }

    package mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { add(byte) }
    }

    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes { add(byte) }
    }

    /// Eight bytes, the lowest first.
    package mutating func add(_ word: UInt64) {
        for shift in stride(from: UInt64(0), to: 64, by: 8) { add(UInt8(truncatingIfNeeded: word >> shift)) }
    }
}

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

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014): one seed, one sequence,
/// on every machine. For simulations, traffic and tests; never for secrets.
package struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }

    /// At least 0, less than 1.
    package mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

    /// At least 0, less than `limit`, which is positive; the lower numbers are likelier by less than `limit` in 2^64.
    package mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

    package mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
}

/// The 64-bit FNV-1a hash (Fowler, Noll and Vo; RFC 9923). Its values are the same on every machine and in every
/// version, so they can be stored and sent. It does not resist deliberate collisions.
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

    /// Adds the eight bytes of a word, least significant byte first.
    @inlinable package mutating func add(_ word: UInt64) {
        for shift in 0..<8 as Range<UInt64> { add(UInt8(truncatingIfNeeded: word >> (shift * 8))) }
    }
}

/// The SplitMix64 generator (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014). A seed
/// gives the same sequence on every machine. It is for simulations, load generation and tests, not for secrets.
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

    /// Returns a number of at least 0 and less than 1.
    package mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

    /// Returns a number of at least 0 and less than `limit`, which must be positive. The bias is less than `limit` /
    /// 2^64.
    package mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

    package mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
}

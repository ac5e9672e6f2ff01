/// A reusable byte buffer, whose capacity grows and never shrinks.
///
/// Not thread-safe. `bytes` is valid until the next mutating call.
///
/// The type is public only for performance: Swift 6.3 inlines `@inlinable public` functions into other modules but not
/// `@inlinable package` ones, and each result record needs about forty appends.
@safe public struct ByteWriter: ~Copyable {
    @usableFromInline var storage: UnsafeMutableRawPointer
    @usableFromInline var capacity: Int
    @usableFromInline var used = 0

    public init(capacity: Int = 256) {
        unsafe storage = UnsafeMutableRawPointer.allocate(byteCount: max(capacity, 16), alignment: 16)
        self.capacity = max(capacity, 16)
    }

    deinit { unsafe storage.deallocate() }

    @inlinable public var count: Int { used }

    @inlinable public var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: storage, count: used) }

    @inlinable public func bytes(from start: Int, to end: Int) -> UnsafeRawBufferPointer {
        precondition(start >= 0 && start <= end && end <= used, "the range must be within the written bytes")
        return unsafe UnsafeRawBufferPointer(start: storage + start, count: end - start)
    }

    @inlinable public mutating func removeAll() { used = 0 }

    /// Removes the bytes from this position on.
    public mutating func remove(from start: Int) {
        precondition(start >= 0 && start <= used, "the position must be within the written bytes")
        used = start
    }

    /// Reserves space, so that appending `more` bytes does not reallocate.
    @inlinable public mutating func reserve(_ more: Int) {
        if more > capacity &- used { grow(more) }
    }

    @usableFromInline @inline(never) mutating func grow(_ more: Int) {
        let larger = max(capacity * 2, used + more)
        let fresh = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 16)
        unsafe fresh.copyMemory(from: storage, byteCount: used)
        unsafe storage.deallocate()
        unsafe storage = unsafe fresh
        capacity = larger
    }

    @inlinable public mutating func append(byte: UInt8) {
        reserve(1)
        unsafe storage.storeBytes(of: byte, toByteOffset: used, as: UInt8.self)
        used &+= 1
    }

    /// Appends a static string. The compiler turns the copy of its bytes into a few stores.
    @inlinable @inline(__always) public mutating func append(_ literal: StaticString) {
        let size = literal.utf8CodeUnitCount
        reserve(size)
        unsafe (storage + used).copyMemory(from: literal.utf8Start, byteCount: size)
        used &+= size
    }

    @inlinable public mutating func append(bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        reserve(bytes.count)
        unsafe (storage + used).copyMemory(from: source, byteCount: bytes.count)
        used &+= bytes.count
    }

    public mutating func append(text: String) {
        var text = text
        text.withUTF8 { unsafe append(bytes: UnsafeRawBufferPointer($0)) }
    }

    public mutating func append(integer: Int64) {
        if integer < 0 { append(byte: 0x2D) }
        append(unsigned: integer.magnitude)
    }

    /// Appends an integer in decimal.
    public mutating func append(unsigned value: UInt64) {
        reserve(24)
        if value < 10 {
            unsafe storage.storeBytes(of: UInt8(truncatingIfNeeded: value) | 0x30, toByteOffset: used, as: UInt8.self)
            used &+= 1
            return
        }
        if value < 100_000_000 {
            appendTrimmed(UInt32(truncatingIfNeeded: value))
            return
        }
        let high = value / 100_000_000
        if high < 100_000_000 {
            appendTrimmed(UInt32(truncatingIfNeeded: high))
        } else {
            appendTrimmed(UInt32(truncatingIfNeeded: high / 100_000_000))
            store(ByteWriter.digits(UInt32(truncatingIfNeeded: high % 100_000_000)) | 0x3030_3030_3030_3030, 8)
        }
        store(ByteWriter.digits(UInt32(truncatingIfNeeded: value % 100_000_000)) | 0x3030_3030_3030_3030, 8)
    }

    /// Appends a number below 100,000,000 without leading zeros.
    @inline(__always)
    private mutating func appendTrimmed(_ value: UInt32) {
        let digits = ByteWriter.digits(value)
        let zeros = value == 0 ? 7 : digits.trailingZeroBitCount &>> 3
        store((digits | 0x3030_3030_3030_3030) &>> UInt64(zeros &* 8), 8 &- zeros)
    }

    /// Stores eight bytes, and counts the first `count` of them as written. The caller must have reserved the space.
    @inline(__always)
    private mutating func store(_ word: UInt64, _ count: Int) {
        unsafe storage.storeBytes(of: word.littleEndian, toByteOffset: used, as: UInt64.self)
        used &+= count
    }

    /// Returns the eight decimal digits of a value below 100,000,000, the first in the lowest byte. Splits the value
    /// into two groups of four digits, then four pairs, then eight digits, in parallel within one word (SWAR).
    @inline(__always)
    static func digits(_ value: UInt32) -> UInt64 {
        let fours = UInt64(value / 10_000) | UInt64(value % 10_000) &<< 32
        let tops = ((fours &* 10_486) &>> 20) & 0x7F_0000_007F
        let twos = tops | (fours &- 100 &* tops) &<< 16
        let tens = ((twos &* 103) &>> 10) & 0xF_000F_000F_000F
        return tens | (twos &- 10 &* tens) &<< 8
    }
}

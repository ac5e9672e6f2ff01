import PushRecords

/// Input that is split at each byte 0xFF, which UTF-8 never contains. Each piece is an allocation of exactly its size,
/// so that the address sanitizer detects a read beyond it. Pieces live as long as this object.
final class Pieces {
    private var owned: [UnsafeMutableRawBufferPointer] = []
    private(set) var all: [UnsafeRawBufferPointer] = []

    init(_ bytes: UnsafeRawBufferPointer = .nothing) {
        for piece in bytes.split(separator: 0xFF, omittingEmptySubsequences: false) { all.append(copy(piece)) }
    }

    deinit { for bytes in owned { bytes.deallocate() } }

    subscript(_ index: Int) -> UnsafeRawBufferPointer? { index < all.count ? all[index] : nil }

    func copy(_ bytes: some Collection<UInt8>) -> UnsafeRawBufferPointer {
        // An empty piece has an address, unlike an absent one.
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 1)
        memory.copyBytes(from: bytes)
        owned.append(memory)
        return UnsafeRawBufferPointer(rebasing: memory[..<bytes.count])
    }

    /// The pieces as a record: flags, key, value, then the names and values of headers. Flag 1 omits the key, and flag
    /// 2 the value. A last name without a value has a null value.
    var record: (key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: [RecordHeader]) {
        let flags = self[0]?.first ?? 0
        var headers: [RecordHeader] = []
        for index in stride(from: 3, to: all.count, by: 2) {
            headers.append(RecordHeader(name: all[index], value: self[index + 1] ?? .nothing))
        }
        let (key, value) = (flags & 1 == 0 ? self[1] : nil, flags & 2 == 0 ? self[2] : nil)
        return (key ?? .nothing, value ?? .nothing, headers)
    }
}

/// Reads input from its beginning. After its end, all bytes are zero.
struct FuzzReader {
    let bytes: UnsafeRawBufferPointer
    private(set) var position = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { position >= bytes.count }

    mutating func byte() -> UInt8 {
        guard position < bytes.count else { return 0 }
        defer { position += 1 }
        return bytes[position]
    }

    mutating func number(below limit: Int) -> Int { Int(byte()) % limit }

    mutating func word() -> Int64 {
        var word: UInt64 = 0
        for _ in 0..<8 { word = word << 8 | UInt64(byte()) }
        return Int64(bitPattern: word)
    }

    /// Returns the next `count` bytes, or fewer at the end.
    mutating func take(_ count: Int) -> UnsafeRawBufferPointer {
        let end = min(bytes.count, position + count)
        defer { position = end }
        return UnsafeRawBufferPointer(rebasing: bytes[position..<end])
    }

    mutating func rest() -> UnsafeRawBufferPointer { take(bytes.count) }

    /// Returns a number near `around` or near a value at which arithmetic may overflow.
    mutating func boundary(around: Int64) -> Int64 {
        let ends: [Int64] = [
            0, .max, .min, around, around &- .max, around &+ .min, 1 << 14, 1 << 31, 1 << 32, 1 << 40, 1 << 53, 1 << 62,
            -(1 << 31), .max / 1_000, .max / 1_000_000, -1_001,
        ]
        let place = Int(byte())
        return ends[place % ends.count] &+ Int64(Int8(bitPattern: byte())) &* (place >= 128 ? 1_000 : 1)
    }
}

/// Reads the names and values of headers. Returns their size.
@discardableResult
func touch(_ headers: UnsafeBufferPointer<RecordHeader>) -> Int {
    for bytes in headers.flatMap({ [$0.name, $0.value] }) { touch(bytes) }
    return headers.reduce(0) { $0 + $1.name.count + $1.value.count }
}

/// Reads every byte, so that the address sanitizer checks all of them.
func touch(_ bytes: UnsafeRawBufferPointer) {
    var sum: UInt8 = 0
    for byte in bytes { sum &+= byte }
    blackHole = sum
}

nonisolated(unsafe) private var blackHole: UInt8 = 0

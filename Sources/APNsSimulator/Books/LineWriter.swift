/// Writes the few texts of the simulator into a lent buffer: hex, UUIDs, numbers. The caller sees to the room.
struct LineWriter {
    private let buffer: UnsafeMutableRawBufferPointer
    private(set) var used = 0

    init(_ buffer: UnsafeMutableRawBufferPointer) { self.buffer = buffer }

    var room: Int { buffer.count - used }

    @inline(__always) mutating func byte(_ byte: UInt8) {
        buffer[used] = byte
        used += 1
    }

    mutating func space() { byte(UInt8(ascii: " ")) }
    mutating func endLine() { byte(UInt8(ascii: "\n")) }

    mutating func text(_ text: StaticString) {
        let target = UnsafeMutableRawBufferPointer(rebasing: buffer[used...])
        target.copyMemory(from: UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        used += text.utf8CodeUnitCount
    }

    mutating func hex(_ bytes: UnsafeRawBufferPointer) {
        for value in bytes {
            byte(lowerDigit(value >> 4))
            byte(lowerDigit(value & 15))
        }
    }

    /// 36 characters.
    mutating func uuid(high: UInt64, low: UInt64, isUpper: Bool = false) {
        let letters = isUpper ? UInt8(ascii: "A") - 10 : UInt8(ascii: "a") - 10
        for index in 0..<16 {
            if index == 4 || index == 6 || index == 8 || index == 10 { byte(UInt8(ascii: "-")) }
            let word = index < 8 ? high : low
            let value = UInt8(truncatingIfNeeded: word >> UInt64(56 - index % 8 * 8))
            byte(value >> 4 + (value >> 4 < 10 ? UInt8(ascii: "0") : letters))
            byte(value & 15 + (value & 15 < 10 ? UInt8(ascii: "0") : letters))
        }
    }

    /// A space and a decimal number.
    mutating func number(_ number: UInt32) {
        space()
        decimal(UInt64(number))
    }

    mutating func decimal(_ number: UInt64) {
        var divisor: UInt64 = 1
        while number / divisor >= 10 { divisor *= 10 }
        var rest = number
        while divisor > 0 {
            byte(UInt8(ascii: "0") + UInt8(rest / divisor))
            rest %= divisor
            divisor /= 10
        }
    }
}

@inline(__always) func lowerDigit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
}

func hexText(_ bytes: UnsafeRawBufferPointer) -> String {
    String(unsafeUninitializedCapacity: bytes.count * 2) { room in
        var writer = LineWriter(UnsafeMutableRawBufferPointer(room))
        writer.hex(bytes)
        return writer.used
    }
}

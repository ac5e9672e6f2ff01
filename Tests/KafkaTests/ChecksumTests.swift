import CUnpacking
import Testing

/// The checksum of record batches, by the processor's instruction and by tables.
struct ChecksumTests {
    private static var ways: [(UnsafePointer<UInt8>?, Int) -> UInt32] { [unpacking_crc32c, unpacking_crc32c_by_table] }

    private static func expect(_ expected: UInt32, of bytes: [UInt8]) {
        for way in ways { #expect(way(bytes, bytes.count) == expected) }
    }

    /// RFC 3720, B.4, and the polynomial's check value.
    @Test func itIsThatOfKnownBytes() {
        Self.expect(0x8A91_36AA, of: [UInt8](repeating: 0, count: 32))
        Self.expect(0x62A8_AB43, of: [UInt8](repeating: 0xFF, count: 32))
        Self.expect(0x46DD_794E, of: Array(0..<32))
        Self.expect(0x113F_DB5C, of: (0..<32).reversed())
        var command: [UInt8] = [1, 0xC0] + [UInt8](repeating: 0, count: 46)
        for (at, byte) in [(16, 0x14), (22, 4), (27, 0x14), (31, 0x18), (32, 0x28), (40, 2)] as [(Int, UInt8)] {
            command[at] = byte
        }
        Self.expect(0xD996_3A56, of: command)
        Self.expect(0xE306_9283, of: Array("123456789".utf8))
        Self.expect(0, of: [])
    }

    /// Bit by bit, as its definition has it.
    @Test func itIsThatOfItsDefinitionAtEveryLengthAndPlace() {
        let bytes = (0..<330).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ $0 >> 3) }
        bytes.withUnsafeBufferPointer { bytes in
            for first in 0..<16 {
                var crc = UInt32.max
                for count in 0...300 {
                    for way in Self.ways where way(bytes.baseAddress! + first, count) != ~crc {
                        Issue.record("\(count) bytes from \(first) on")
                    }
                    crc ^= UInt32(bytes[first + count])
                    for _ in 0..<8 { crc = crc >> 1 ^ (crc & 1 == 1 ? 0x82F6_3B78 : 0) }
                }
            }
        }
    }

    /// Where these tests run, both ways are tested.
    @Test func theInstructionIsThere() { #expect(unpacking_has_crc32c()) }
}

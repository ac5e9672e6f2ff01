internal import Bytes

/// A notification's id (`apns-id`): a UUID (RFC 9562), stored as two big-endian 64-bit words.
public struct NotificationUUID: Hashable, Sendable {
    /// The first eight bytes of the id as a number.
    public var high: UInt64
    /// The last eight bytes of the id as a number.
    public var low: UInt64

    /// Creates an id from its two words.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The nil UUID, which represents no id.
    package static let none = NotificationUUID(high: 0, low: 0)
}

extension NotificationUUID: CustomStringConvertible {
    /// The length of an id's text in bytes.
    package static let textCount = 36

    /// Creates an id from `8-4-4-4-12` hex digits in either case, or returns `nil` for any other text.
    public init?(text: String) {
        var text = text
        let id = text.withUTF8 { NotificationUUID(text: UnsafeRawBufferPointer($0)) }
        guard let id else { return nil }
        self = id
    }

    package init?(text: UnsafeRawBufferPointer) {
        guard text.count == Self.textCount, let base = text.baseAddress else { return nil }
        var words: (high: UInt64, low: UInt64) = (0, 0)
        for index in 0..<Self.textCount {
            let byte = base.load(fromByteOffset: index, as: UInt8.self)
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard byte == 0x2D else { return nil }
                continue
            }
            guard let digit = Hex.value(byte) else { return nil }
            if index < 18 {
                words.high = words.high << 4 | UInt64(digit)
            } else {
                words.low = words.low << 4 | UInt64(digit)
            }
        }
        self.init(high: words.high, low: words.low)
    }

    /// The id as `8-4-4-4-12` hex digits in lower case (RFC 9562).
    public var description: String {
        withUnsafeTemporaryAllocation(byteCount: Self.textCount, alignment: 1) { buffer in
            writeText(to: buffer.baseAddress!)
            return String(decoding: buffer, as: UTF8.self)
        }
    }

    /// Writes the id's lower-case text of `textCount` bytes to `target`.
    package func writeText(to target: UnsafeMutableRawPointer) {
        let first = Hex.digits(UInt32(truncatingIfNeeded: high >> 32)).littleEndian
        let second = Hex.digits(UInt32(truncatingIfNeeded: high)).littleEndian
        let third = Hex.digits(UInt32(truncatingIfNeeded: low >> 32)).littleEndian
        let fourth = Hex.digits(UInt32(truncatingIfNeeded: low)).littleEndian
        target.storeBytes(of: first, as: UInt64.self)
        target.storeBytes(of: 0x2D, toByteOffset: 8, as: UInt8.self)
        target.storeBytes(of: UInt32(truncatingIfNeeded: second), toByteOffset: 9, as: UInt32.self)
        target.storeBytes(of: 0x2D, toByteOffset: 13, as: UInt8.self)
        target.storeBytes(of: UInt32(truncatingIfNeeded: second >> 32), toByteOffset: 14, as: UInt32.self)
        target.storeBytes(of: 0x2D, toByteOffset: 18, as: UInt8.self)
        target.storeBytes(of: UInt32(truncatingIfNeeded: third), toByteOffset: 19, as: UInt32.self)
        target.storeBytes(of: 0x2D, toByteOffset: 23, as: UInt8.self)
        target.storeBytes(of: UInt32(truncatingIfNeeded: third >> 32), toByteOffset: 24, as: UInt32.self)
        target.storeBytes(of: fourth, toByteOffset: 28, as: UInt64.self)
    }
}

/// The `apns-id` derived from the request's position in Kafka. Every send of a notification has the same id.
///
/// A derived id is a UUIDv8 (RFC 9562). Besides the version and variant bits, it contains the lowest 48 bits of the
/// offset, 14 of the index, 20 of the partition, and 40 bits of a hash of the topic's name, in this order. Ids may
/// collide, because higher bits are dropped. Only the member `request` of a result identifies a notification uniquely.
package enum DerivedID {
    package struct Place: Equatable, Sendable {
        package var offset: Int64
        package var index: Int32
        package var partition: Int32
        package var topicHash: UInt64

        package init(offset: Int64, index: Int32, partition: Int32, topicHash: UInt64) {
            self.offset = offset
            self.index = index
            self.partition = partition
            self.topicHash = topicHash
        }
    }

    /// Returns a 40-bit hash of a topic's name: the 64-bit FNV-1a hash, whose upper 24 bits are XORed into its lowest
    /// bits.
    package static func topicHash(_ topic: UnsafeRawBufferPointer) -> UInt64 {
        var hash = FNV1a()
        hash.add(topic)
        return (hash.value >> 40 ^ hash.value) & 0xFF_FFFF_FFFF
    }

    /// Returns the id derived from a notification's topic hash, partition, offset and index.
    @inlinable package static func make(topicHash: UInt64, partition: Int32, offset: Int64, index: Int32)
        -> NotificationUUID
    {
        let offset = UInt64(bitPattern: offset) & 0xFFFF_FFFF_FFFF
        let index = UInt64(UInt32(bitPattern: index)) & 0x3FFF
        let partition = UInt64(UInt32(bitPattern: partition)) & 0xF_FFFF
        return NotificationUUID(
            high: offset << 16 | 0x8000 | index >> 2,
            low: 0x8000_0000_0000_0000 | (index & 3) << 60 | partition << 40 | topicHash & 0xFF_FFFF_FFFF)
    }

    /// Returns the parts of the request's position that an id contains, or `nil` if the id is not a UUIDv8.
    package static func decode(_ id: NotificationUUID) -> Place? {
        guard id.high >> 12 & 0xF == 8, id.low >> 62 == 0b10 else { return nil }
        return Place(
            offset: Int64(id.high >> 16), index: Int32((id.high & 0xFFF) << 2 | id.low >> 60 & 3),
            partition: Int32(id.low >> 40 & 0xF_FFFF), topicHash: id.low & 0xFF_FFFF_FFFF)
    }
}

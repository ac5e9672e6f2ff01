internal import Bytes

/// The `apns-id` that spells the request's place, so that every resend of a notification carries one id.
///
/// A UUIDv8 (RFC 9562): offset 48 bits, index 14, partition 20, hash of the topic's name 40, in that order around the
/// version and variant bits. Higher bits of an offset, index or partition are dropped: an id is for finding, while
/// `request` in results is what identifies.
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

    /// 40 bits: FNV-1a of 64 bits over the name's bytes, its upper 24 bits folded onto the lower 40. Once a topic.
    package static func topicHash(_ topic: UnsafeRawBufferPointer) -> UInt64 {
        var hash = FNV1a()
        hash.add(topic)
        return (hash.value >> 40 ^ hash.value) & 0xFF_FFFF_FFFF
    }

    /// The id of a notification. O(1), no allocation.
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

    /// The place an id spells; `nil` when it is not a UUIDv8.
    package static func decode(_ id: NotificationUUID) -> Place? {
        guard id.high >> 12 & 0xF == 8, id.low >> 62 == 0b10 else { return nil }
        return Place(
            offset: Int64(id.high >> 16), index: Int32((id.high & 0xFFF) << 2 | id.low >> 60 & 3),
            partition: Int32(id.low >> 40 & 0xF_FFFF), topicHash: id.low & 0xFF_FFFF_FFFF)
    }
}

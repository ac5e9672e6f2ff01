import Glibc
import PushRecords

/// The header fields of one request that APNs looks at: lent bytes, valid as long as the request's.
///
/// A field that is not there has no base address; one that is there and empty has one.
struct RequestFields {
    var method = UnsafeRawBufferPointer(start: nil, count: 0)
    var path = UnsafeRawBufferPointer(start: nil, count: 0)
    var authorization = UnsafeRawBufferPointer(start: nil, count: 0)
    var topic = UnsafeRawBufferPointer(start: nil, count: 0)
    var pushType = UnsafeRawBufferPointer(start: nil, count: 0)
    var priority = UnsafeRawBufferPointer(start: nil, count: 0)
    var expiration = UnsafeRawBufferPointer(start: nil, count: 0)
    var id = UnsafeRawBufferPointer(start: nil, count: 0)
    /// `apns-request-id` and `apns-channel-id`, of broadcasts and of what manages channels.
    var requestID = UnsafeRawBufferPointer(start: nil, count: 0)
    var channelID = UnsafeRawBufferPointer(start: nil, count: 0)
    var collapseID = UnsafeRawBufferPointer(start: nil, count: 0)
    /// A field of APNs came twice.
    var hasDuplicate = false

    /// Takes a field; names are lower case (RFC 9113, 8.2.1). Fields that APNs does not know are left out.
    mutating func add(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        switch name.count {
        case 5 where name.spells(":path"): hasDuplicate = Self.set(&path, value) || hasDuplicate
        case 7 where name.spells("apns-id"): hasDuplicate = Self.set(&id, value) || hasDuplicate
        case 7 where name.spells(":method"): hasDuplicate = Self.set(&method, value) || hasDuplicate
        case 10 where name.spells("apns-topic"): hasDuplicate = Self.set(&topic, value) || hasDuplicate
        case 13 where name.spells("authorization"): hasDuplicate = Self.set(&authorization, value) || hasDuplicate
        case 13 where name.spells("apns-priority"): hasDuplicate = Self.set(&priority, value) || hasDuplicate
        case 14 where name.spells("apns-push-type"): hasDuplicate = Self.set(&pushType, value) || hasDuplicate
        case 15 where name.spells("apns-expiration"): hasDuplicate = Self.set(&expiration, value) || hasDuplicate
        case 15 where name.spells("apns-request-id"): hasDuplicate = Self.set(&requestID, value) || hasDuplicate
        case 15 where name.spells("apns-channel-id"): hasDuplicate = Self.set(&channelID, value) || hasDuplicate
        case 16 where name.spells("apns-collapse-id"): hasDuplicate = Self.set(&collapseID, value) || hasDuplicate
        default: break
        }
    }

    /// Sets a field and says whether it had been set before.
    @inline(__always)
    private static func set(_ field: inout UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
        let isAgain = field.baseAddress != nil
        // An empty value may be lent without an address; it is there all the same.
        field =
            value.baseAddress == nil ? UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: 1), count: 0) : value
        return isAgain
    }
}

extension UnsafeRawBufferPointer {
    /// Whether these bytes are that ASCII text.
    @inline(__always) func spells(_ text: StaticString) -> Bool {
        count == text.utf8CodeUnitCount && (count == 0 || memcmp(baseAddress!, text.utf8Start, count) == 0)
    }

    /// Whether both hold the same bytes.
    @inline(__always) func same(as other: UnsafeRawBufferPointer) -> Bool {
        count == other.count && (count == 0 || memcmp(baseAddress!, other.baseAddress!, count) == 0)
    }
}

import Glibc
import PushRecords

/// The header fields of one request that APNs evaluates, borrowed from the request.
///
/// An absent field has a null base address. The base address of an empty field is not null.
struct RequestFields {
    var method: UnsafeRawBufferPointer = .nothing
    var path: UnsafeRawBufferPointer = .nothing
    var authorization: UnsafeRawBufferPointer = .nothing
    var topic: UnsafeRawBufferPointer = .nothing
    var pushType: UnsafeRawBufferPointer = .nothing
    var priority: UnsafeRawBufferPointer = .nothing
    var expiration: UnsafeRawBufferPointer = .nothing
    var id: UnsafeRawBufferPointer = .nothing
    /// The `apns-request-id` of a broadcast or a channel management request. `channelID` is the `apns-channel-id` of
    /// such requests.
    var requestID: UnsafeRawBufferPointer = .nothing
    var channelID: UnsafeRawBufferPointer = .nothing
    var collapseID: UnsafeRawBufferPointer = .nothing
    /// Whether one of the known fields occurred twice in the request.
    var hasDuplicate = false

    /// Adds a field with a lower-case name (RFC 9113, 8.2.1). Ignores unknown fields.
    mutating func add(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        let isAgain =
            switch name.count {
            case 5 where name.spells(":path"): Self.set(&path, value)
            case 7 where name.spells("apns-id"): Self.set(&id, value)
            case 7 where name.spells(":method"): Self.set(&method, value)
            case 10 where name.spells("apns-topic"): Self.set(&topic, value)
            case 13 where name.spells("authorization"): Self.set(&authorization, value)
            case 13 where name.spells("apns-priority"): Self.set(&priority, value)
            case 14 where name.spells("apns-push-type"): Self.set(&pushType, value)
            case 15 where name.spells("apns-expiration"): Self.set(&expiration, value)
            case 15 where name.spells("apns-request-id"): Self.set(&requestID, value)
            case 15 where name.spells("apns-channel-id"): Self.set(&channelID, value)
            case 16 where name.spells("apns-collapse-id"): Self.set(&collapseID, value)
            default: false
            }
        if isAgain { hasDuplicate = true }
    }

    /// Sets a field. Returns whether the field was already set.
    @inline(__always)
    private static func set(_ field: inout UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
        let isAgain = field.baseAddress != nil
        // An empty value may have a null base address. Replace the address to distinguish the value from an absent
        // field.
        field =
            value.baseAddress == nil ? UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: 1), count: 0) : value
        return isAgain
    }
}

extension UnsafeRawBufferPointer {
    /// Returns whether the buffer's bytes equal an ASCII string.
    @inline(__always) func spells(_ text: StaticString) -> Bool {
        count == text.utf8CodeUnitCount && (count == 0 || memcmp(baseAddress!, text.utf8Start, count) == 0)
    }

    /// Returns the bytes after a prefix, or `nil` if the buffer does not begin with the prefix.
    @inline(__always) func after(_ prefix: StaticString) -> UnsafeRawBufferPointer? {
        let start = UnsafeRawBufferPointer(rebasing: self.prefix(prefix.utf8CodeUnitCount))
        return start.spells(prefix) ? UnsafeRawBufferPointer(rebasing: dropFirst(start.count)) : nil
    }

    /// Returns whether both buffers have equal bytes.
    @inline(__always) func same(as other: UnsafeRawBufferPointer) -> Bool {
        count == other.count && (count == 0 || memcmp(baseAddress!, other.baseAddress!, count) == 0)
    }
}

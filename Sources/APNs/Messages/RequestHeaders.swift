internal import Glibc
package import HTTP2
internal import PushRecords
package import PushTransport

/// Writes the header fields of each request into one reused list. Used on the loop's thread only.
///
/// The fields are those of Apple's "Sending notification requests to APNs". HPACK indexes fields that repeat. For a
/// field that changes with each request, HPACK indexes only the name (`HeaderIndexing`).
package struct RequestHeaders: ~Copyable {
    /// The slots of the field names that HPACK indexes once per connection, without their values.
    private enum NameSlot {
        static let apnsID: UInt8 = 0
        static let expiration: UInt8 = 1
        static let requestID: UInt8 = 2
        static let channelID: UInt8 = 3
        static let collapseID: UInt8 = 4
    }

    /// The response headers that the transport stores (`keep(for:)`).
    package static let wantedHeaders: [StaticString] = ["apns-id", "apns-unique-id", "apns-request-id"]

    private static let devicePath: StaticString = "/3/device/"
    private static let broadcastPath: StaticString = "/4/broadcasts/apps/"
    private static let pathField = 2
    /// The maximum length of a path in bytes. A device token has at most 200 hex digits, and a bundle id 255 bytes.
    private static let pathLimit = 512

    package private(set) var list = HeaderList()
    private let path: UnsafeMutableRawBufferPointer
    private let digits: UnsafeMutableRawBufferPointer
    private let uuid: UnsafeMutableRawBufferPointer
    private let authority: UnsafeMutableRawBufferPointer
    /// The number of fields that are the same for all requests.
    private let baseCount: Int
    private let hasToken: Bool

    /// - Parameter hasToken: whether requests have the field `authorization`, which `setAuthorization` sets.
    package init(authority: String, hasToken: Bool) {
        path = .allocate(byteCount: Self.pathLimit, alignment: 8)
        digits = .allocate(byteCount: 16, alignment: 8)
        uuid = .allocate(byteCount: NotificationUUID.textCount, alignment: 8)
        self.authority = .allocate(byteCount: authority.utf8.count, alignment: 1)
        self.authority.copyBytes(from: authority.utf8)
        self.hasToken = hasToken
        list.append(":method", "POST")
        list.append(":scheme", "https")
        list.append(":path", "/", .never)
        list.append(":authority", UnsafeRawBufferPointer(self.authority))
        if hasToken { list.append("authorization", "", .credential) }
        baseCount = list.count
    }

    deinit {
        path.deallocate()
        digits.deallocate()
        uuid.deallocate()
        authority.deallocate()
    }

    /// Sets the value of `authorization`. The value's bytes must stay valid until the next call.
    package mutating func setAuthorization(_ value: UnsafeRawBufferPointer) {
        guard hasToken else { return }
        list.replaceValue(at: baseCount - 1, value)
    }

    /// Fills `list` with the fields of `request`. The request's bytes must stay valid until the list is submitted.
    package mutating func write(_ request: borrowing OutgoingRequest) {
        list.truncate(to: baseCount)
        if request.isBroadcast {
            list.replaceValue(at: Self.pathField, joined(Self.broadcastPath, request.headers.topic))
            list.append("apns-channel-id", request.token, .nameOnly(slot: NameSlot.channelID))
        } else {
            list.replaceValue(at: Self.pathField, joined(Self.devicePath, request.token))
            list.append("apns-topic", request.headers.topic)
        }
        list.append("apns-push-type", request.headers.pushType.text)
        switch request.headers.priority {
        case 0:
            // The default priority, sent explicitly. Apple's page on broadcasts does not say whether the field is
            // required.
            if request.isBroadcast { list.append("apns-priority", "10") }
        case 1: list.append("apns-priority", "1")
        case 5: list.append("apns-priority", "5")
        default: list.append("apns-priority", "10")
        }
        if let expiration = request.headers.expiration {
            // HPACK can index an expiration of 0, which repeats. Other times do not repeat.
            if expiration == 0 {
                list.append("apns-expiration", "0")
            } else {
                list.append("apns-expiration", decimal(expiration), .nameOnly(slot: NameSlot.expiration))
            }
        }
        if request.headers.collapseID.count > 0 {
            list.append("apns-collapse-id", request.headers.collapseID, .nameOnly(slot: NameSlot.collapseID))
        }
        if request.headers.apnsID != .none {
            request.headers.apnsID.writeText(to: uuid.baseAddress!)
            let text = UnsafeRawBufferPointer(uuid)
            if request.isBroadcast {
                list.append("apns-request-id", text, .nameOnly(slot: NameSlot.requestID))
            } else {
                list.append("apns-id", text, .nameOnly(slot: NameSlot.apnsID))
            }
        }
    }

    /// Returns which of `wantedHeaders` to store from the response, as a bit mask: `apns-id` (`apns-request-id` of a
    /// broadcast) only if Apple creates the id, and `apns-unique-id` always, which APNs sends only in development.
    package static func keep(for request: borrowing OutgoingRequest) -> UInt8 {
        request.headers.apnsID != .none ? 0b10 : request.isBroadcast ? 0b110 : 0b11
    }

    private func joined(_ prefix: StaticString, _ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let count = prefix.utf8CodeUnitCount
        precondition(count + rest.count <= Self.pathLimit, "Device tokens and bundle ids must fit into the path")
        memcpy(path.baseAddress!, prefix.utf8Start, count)
        if let base = rest.baseAddress { memcpy(path.baseAddress! + count, base, rest.count) }
        return UnsafeRawBufferPointer(rebasing: path[0..<(count + rest.count)])
    }

    private func decimal(_ value: UInt32) -> UnsafeRawBufferPointer {
        var rest = value
        var at = digits.count
        repeat {
            at -= 1
            digits[at] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        } while rest > 0
        return UnsafeRawBufferPointer(rebasing: digits[at...])
    }
}

import JSON

/// The values of headers that a writer makes: numbers, ids and places. Its buffer never moves, so what it lends stays
/// valid until `removeAll`, whatever is added later.
///
/// There is room for all that one record can have; what finds none is left empty rather than moving the rest.
struct HeaderText: ~Copyable {
    /// One place, one id and ten numbers.
    static let capacity = 1_024

    private var text = ByteWriter(capacity: capacity)

    mutating func removeAll() { text.removeAll() }

    @inline(__always)
    mutating func add(_ id: NotificationUUID) -> UnsafeRawBufferPointer {
        guard hasRoom(NotificationUUID.textCount) else { return .nothing }
        withUnsafeTemporaryAllocation(byteCount: NotificationUUID.textCount, alignment: 8) { room in
            id.writeText(to: room.baseAddress!)
            text.append(bytes: UnsafeRawBufferPointer(room))
        }
        return text.bytes(from: text.count - NotificationUUID.textCount, to: text.count)
    }

    mutating func add(_ number: Int64) -> UnsafeRawBufferPointer {
        // The writer asks for a few bytes more than a number has.
        guard hasRoom(32) else { return .nothing }
        let start = text.count
        text.append(integer: number)
        return text.bytes(from: start, to: text.count)
    }

    mutating func add(_ place: borrowing RequestPlace) -> UnsafeRawBufferPointer {
        guard hasRoom(RecordLimits.place + 32) else { return .nothing }
        let start = text.count
        text.append(place)
        return text.bytes(from: start, to: text.count)
    }

    @inline(__always)
    private func hasRoom(_ size: Int) -> Bool { size <= Self.capacity &- text.count }
}

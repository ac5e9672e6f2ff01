package import PushTransport

/// The resend window of one binary connection: the frames without an outcome, in the order in which they are sent.
///
/// The window uses no I/O and no clock. The gateway sends an answer only for an error, so an entry counts as accepted
/// if no error arrives within the window's duration after the peer's kernel acknowledged the frame. An error answer
/// names one entry. The entries before it were accepted, and those after it were discarded.
package struct BinaryWindow: Sendable {
    package struct Entry: Sendable, Equatable {
        package var id: NotificationID
        /// The position at which the frame ends in the connection's output.
        package var end: Int64
        package var openedMs: Int64
        package var bytes: Int32
        /// Whether this is the fence, a frame that the gateway must reject and that carries no notification.
        package var isFence: Bool
        /// The monotonic time at which the frame was encoded.
        package var openedNs: Int64 = 0
        /// The time at which the peer's kernel acknowledged the frame's last byte, or 0 if the time is not known.
        package var leftNs: Int64 = 0
    }

    package enum Place: Equatable, Sendable {
        /// The identifier of an open entry. `before` is the number of open entries before that entry.
        case open(before: Int)
        /// The identifier of a closed entry. `after` is the number of entries that were closed as accepted after that
        /// entry.
        case closed(after: Int)
        case unknown
    }

    /// A ring buffer. Its size is a power of two.
    private var entries: ContiguousArray<Entry> = []
    private var head = 0
    package private(set) var count = 0
    package private(set) var bytes = 0
    /// The number of entries, from the first, that the peer's kernel has acknowledged.
    private var leftCount = 0
    /// The identifier of the first open entry. Identifiers count from 1 on each connection.
    private var firstIdentifier: UInt32 = 1
    /// The number of closed entries, capped at `Int32.max`, because the 32-bit identifiers cannot distinguish more.
    package private(set) var closedCount = 0

    package var isEmpty: Bool { count == 0 }

    /// The identifier of the next entry.
    package var nextIdentifier: UInt32 { firstIdentifier &+ UInt32(count) }

    // MARK: Opening

    package mutating func open(_ entry: Entry) {
        if count == entries.count { grow() }
        entries[place(count)] = entry
        count += 1
        bytes += Int(entry.bytes)
    }

    /// Records that the peer's kernel acknowledged the first `position` bytes of the output.
    package mutating func left(upTo position: Int64, nowNs: Int64) {
        while leftCount < count, entries[place(leftCount)].end <= position {
            // Store at least 1, because 0 means unknown and the clock may start at 0.
            entries[place(leftCount)].leftNs = max(1, nowNs)
            leftCount += 1
        }
    }

    /// The time at which the first unacknowledged entry was opened, or `nil` if there is none.
    package var waitingSinceNs: Int64? { leftCount < count ? entries[place(leftCount)].openedNs : nil }

    /// Whether the first entry is the fence. The window must not be empty.
    package var isFirstFence: Bool { entries[head].isFence }

    /// The time at which the peer's kernel acknowledged the last entry, or `nil` if it has not.
    package var lastLeftNs: Int64? { count > 0 && leftCount == count ? entries[place(count - 1)].leftNs : nil }

    /// The time at which the peer's kernel acknowledged the first entry, or `nil` if it has not.
    package var firstLeftNs: Int64? { leftCount > 0 ? entries[head].leftNs : nil }

    // MARK: Closing

    /// Removes and returns the first entry if it was acknowledged at `leftNs` or before, so that it can be presumed
    /// accepted.
    package mutating func removeSilent(leftBy leftNs: Int64) -> Entry? {
        guard leftCount > 0, entries[head].leftNs <= leftNs else { return nil }
        return removeFirst()
    }

    /// Removes the first entry. The window must not be empty.
    package mutating func removeFirst() -> Entry {
        let entry = entries[head]
        head = (head + 1) & (entries.count - 1)
        count -= 1
        bytes -= Int(entry.bytes)
        if leftCount > 0 { leftCount -= 1 }
        firstIdentifier &+= 1
        closedCount = min(closedCount + 1, Int(Int32.max))
        return entry
    }

    package func place(of identifier: UInt32) -> Place {
        let distance = Int(Int32(bitPattern: identifier &- firstIdentifier))
        if distance >= 0 { return distance < count ? .open(before: distance) : .unknown }
        return -distance <= closedCount ? .closed(after: -distance - 1) : .unknown
    }

    /// Returns when the peer's kernel acknowledged a closed entry. `after` is the number of entries closed after that
    /// entry. Returns `nil` if the entry was overwritten in the ring buffer.
    package func leftNs(ofClosedBefore after: Int) -> Int64? {
        guard after < entries.count - count else { return nil }
        let leftNs = entries[place(-1 - after)].leftNs
        return leftNs > 0 ? leftNs : nil
    }

    package func holds(anyOf ids: Set<NotificationID>) -> Bool {
        (0..<count).contains { ids.contains(entries[place($0)].id) }
    }

    private func place(_ offset: Int) -> Int { (head + offset) & (entries.count - 1) }

    private mutating func grow() {
        let vacant = Entry(
            id: NotificationID(number: .max, generation: 0), end: 0, openedMs: 0, bytes: 0, isFence: false)
        var larger = ContiguousArray(repeating: vacant, count: max(256, entries.count * 2))
        for offset in 0..<count { larger[offset] = entries[place(offset)] }
        entries = larger
        head = 0
    }
}

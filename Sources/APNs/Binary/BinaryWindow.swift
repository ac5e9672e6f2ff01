package import PushTransport

/// The resend window of one binary connection: the frames that were written and are undecided, in order.
///
/// A value machine, no I/O and no clock. The protocol answers nothing where all is well, so an entry closes by time:
/// when it left for the peer and nothing was said for the window's duration. An error answer names one entry. Those
/// before it were accepted, those after it discarded.
package struct BinaryWindow: Sendable {
    package struct Entry: Sendable, Equatable {
        package var id: NotificationID
        /// Where its frame ends in the connection's output.
        package var end: Int64
        package var openedMs: Int64
        package var bytes: Int32
        /// The fence: no notification, but a frame that the gateway must refuse.
        package var isFence: Bool
        /// When its frame was made. Monotonic.
        package var openedNs: Int64 = 0
        /// When the peer's kernel acknowledged its last byte, or 0 while it is not known to have.
        package var leftNs: Int64 = 0
    }

    package enum Place: Equatable, Sendable {
        /// So many open entries stand before it.
        case open(before: Int)
        /// It was closed; so many were closed after it, as accepted.
        case closed(after: Int)
        case unknown
    }

    /// A ring; its size is a power of two.
    private var entries: ContiguousArray<Entry> = []
    private var head = 0
    package private(set) var count = 0
    package private(set) var bytes = 0
    /// How many of the first ones have left.
    private var leftCount = 0
    /// The identifier of the first open one; they count from 1 on each connection.
    private var firstIdentifier: UInt32 = 1
    /// How many were closed, as far as identifiers tell them apart.
    package private(set) var closedCount = 0

    package var isEmpty: Bool { count == 0 }

    /// The one that the next entry will have.
    package var nextIdentifier: UInt32 { firstIdentifier &+ UInt32(count) }

    private static let vacant = Entry(
        id: NotificationID(number: .max, generation: 0), end: 0, openedMs: 0, bytes: 0, isFence: false)

    // MARK: Opening

    package mutating func open(_ entry: Entry) {
        if count == entries.count { grow() }
        entries[place(count)] = entry
        count += 1
        bytes += Int(entry.bytes)
    }

    /// The peer's kernel has the first `position` bytes of the output.
    package mutating func left(upTo position: Int64, nowNs: Int64) {
        while leftCount < count, entries[place(leftCount)].end <= position {
            // 0 means not known, and the clock may begin there.
            entries[place(leftCount)].leftNs = max(1, nowNs)
            leftCount += 1
        }
    }

    /// When the first one was opened that is not known to have left, if any.
    package var waitingSinceNs: Int64? { leftCount < count ? entries[place(leftCount)].openedNs : nil }

    /// Only while not empty.
    package var isFirstFence: Bool { entries[head].isFence }

    /// When the last entry left, if it has.
    package var lastLeftNs: Int64? { count > 0 && leftCount == count ? entries[place(count - 1)].leftNs : nil }

    /// When the first entry left, if it has.
    package var firstLeftNs: Int64? { leftCount > 0 ? entries[head].leftNs : nil }

    // MARK: Closing

    /// The next one that left at `leftNs` or before: closed by the peer's silence.
    package mutating func removeSilent(leftBy leftNs: Int64) -> Entry? {
        guard leftCount > 0, entries[head].leftNs <= leftNs else { return nil }
        return removeFirst()
    }

    /// Only while not empty.
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

    /// When an entry left that closed, before so many that closed after it; `nil` if its place in the ring was used
    /// again.
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
        var larger = ContiguousArray<Entry>()
        larger.reserveCapacity(max(256, entries.count * 2))
        for offset in 0..<count { larger.append(entries[place(offset)]) }
        while larger.count < max(256, entries.count * 2) { larger.append(Self.vacant) }
        entries = larger
        head = 0
    }
}

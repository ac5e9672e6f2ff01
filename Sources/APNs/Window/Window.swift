package import PushTransport

/// The resend window of one HTTP/2 connection: the notifications in flight, and how each one completes.
///
/// The window uses no I/O and no clock. An entry opens when a request is handed to the connection, and closes exactly
/// once. <doc:ResendWindow> lists the events that close it. Positions are offsets in the connection's plaintext. A
/// request whose END_STREAM the kernel has not accepted cannot have been processed. A `ticket` identifies an open
/// entry.
package struct Window: Sendable {
    package struct Closed: Equatable, Sendable {
        package var id: NotificationID
        package var kind: Completion.Kind
        /// The reason for `notProcessed`:
        /// - refused by the peer: REFUSED_STREAM, a GOAWAY with a lower last stream id, or a reset or a closed
        ///   flow-control window before the body's end,
        /// - discarded by the peer, which refused another request in the same GOAWAY,
        /// - never sent: this process has not sent the request completely, through no fault of the peer.
        package var unprocessed = Completion.Unprocessed.neverSent
        package var sentAtMs: Int64
        /// The generation of the provider token that the request carried.
        package var token: UInt32
        package var connectionDied: Bool
        /// Whether the connection was given up because it was silent, which is not the notification's fault.
        package var wasSilent = false
    }

    /// The result of a timeout: one entry has timed out, or the whole connection.
    package enum Expiry: Equatable, Sendable {
        /// One entry timed out while others were answered. The caller must cancel the entry's stream.
        case entry(stream: Int32, Closed)
        /// An entry timed out, and no other request was answered while it waited. The caller must give up the
        /// connection (`lost` closes its entries).
        case connection
    }

    private struct Entry {
        var id: NotificationID
        var stream: Int32 = 0
        var token: UInt32
        /// The position after END_STREAM, or -1 until END_STREAM is in the output.
        var end: Int64 = -1
        var openedNs: Int64
        /// The time at which the kernel accepted END_STREAM, or 0 if the time is not known.
        var sentNs: Int64 = 0
        var openedMs: Int64
        /// The value of `answers` when the entry's wait began.
        var answersBefore: UInt32 = 0
        var list: List = .free
        var previous: UInt32 = none
        var next: UInt32 = none
    }

    private enum List: Int {
        /// Entries whose END_STREAM is not in the output yet, in order of opening.
        case waiting
        /// Entries whose END_STREAM is in the output, in order of position.
        case sent
        case free
    }

    private struct Ends {
        var first: UInt32 = none
        var last: UInt32 = none
    }

    private static let none = UInt32.max

    private let timeoutNs: Int64
    private var entries: ContiguousArray<Entry> = []
    private var free: UInt32 = none
    /// The first and last entry of each list.
    private var ends: [2 of Ends] = .init(repeating: Ends())
    /// The first entry in `sent` whose END_STREAM the kernel may not have accepted.
    private var unstamped: UInt32 = none
    /// The number of output bytes that the kernel has accepted.
    private var written: Int64 = 0
    /// The number of streams that the peer answered or ended. The number wraps around.
    package private(set) var answers: UInt32 = 0

    package private(set) var count = 0

    package init(timeoutNs: Int64) { self.timeoutNs = timeoutNs }

    package var isEmpty: Bool { count == 0 }

    // MARK: Opening

    /// Opens an entry for a request, and returns the entry's ticket. A call of `handed` or `withdraw` must follow.
    package mutating func open(_ id: NotificationID, token: UInt32, nowNs: Int64, nowMs: Int64) -> UInt32 {
        let entry = Entry(id: id, token: token, openedNs: nowNs, openedMs: nowMs, answersBefore: answers)
        let ticket: UInt32
        if free != Self.none {
            ticket = free
            free = entries[Int(ticket)].next
            entries[Int(ticket)] = entry
        } else {
            ticket = UInt32(entries.count)
            entries.append(entry)
        }
        count += 1
        append(ticket, to: .waiting)
        return ticket
    }

    /// Removes an entry whose request the connection did not accept.
    package mutating func withdraw(_ ticket: UInt32) { release(ticket) }

    /// Records that the connection accepted the request on `stream`. `end` is the position after its END_STREAM, or
    /// `nil` if `bodySent` follows.
    package mutating func handed(_ ticket: UInt32, stream: Int32, end: Int64?) {
        precondition(isOpen(ticket), "An entry must be opened before its request is handed to the connection")
        entries[Int(ticket)].stream = stream
        if let end { bodySent(ticket, end: end) }
    }

    /// Records that END_STREAM is in the output and ends at the position `end`.
    package mutating func bodySent(_ ticket: UInt32, end: Int64) {
        guard isOpen(ticket), entries[Int(ticket)].list == .waiting else { return }
        unlink(ticket)
        entries[Int(ticket)].end = end
        append(ticket, to: .sent)
        if unstamped == Self.none { unstamped = ticket }
    }

    /// Records that the kernel has accepted the first `position` bytes of the output.
    package mutating func didWrite(upTo position: Int64, nowNs: Int64) {
        written = max(written, position)
        while unstamped != Self.none, entries[Int(unstamped)].end <= written {
            // 0 means unknown, and the clock may start at 0, so store at least 1.
            entries[Int(unstamped)].sentNs = max(1, nowNs)
            entries[Int(unstamped)].answersBefore = answers
            unstamped = entries[Int(unstamped)].next
        }
    }

    // MARK: Closing

    /// Closes an entry that has a final status. Returns `nil` if the entry was closed before (a late answer).
    package mutating func responded(_ ticket: UInt32) -> Closed? {
        answers &+= 1
        return isOpen(ticket) ? close(ticket, .answered) : nil
    }

    /// Closes an entry whose stream ended without a final status.
    package mutating func ended(_ ticket: UInt32, isRefused: Bool) -> Closed? {
        answers &+= 1
        guard isOpen(ticket) else { return nil }
        return close(ticket, isRefused || !kernelHas(ticket) ? .notProcessed : .inDoubt, .refusedByPeer)
    }

    /// After a GOAWAY, closes the entries whose stream is above `last` as not processed. The other entries stay open. A
    /// second GOAWAY can only lower `last`.
    ///
    /// - Parameter isGraceful: whether the GOAWAY is graceful and the peer has answered requests. Then only the request
    ///   on the first stream above `last` can have caused the GOAWAY, and the peer discarded the other ones.
    package mutating func goneAway(last: Int32, isGraceful: Bool, into closed: inout [Closed]) {
        let above = entries.lazy.filter { $0.list != .free && $0.stream > last }
        let first = isGraceful ? above.map(\.stream).min() : nil
        closeAll(into: &closed) { entry in
            guard entry.stream > last else { return nil }
            return (.notProcessed, isGraceful && entry.stream != first ? .discarded : .refusedByPeer)
        }
    }

    /// Closes all entries of a lost connection. The kernel had accepted `position` bytes of the output.
    ///
    /// - Parameter isSilent: whether the connection was given up because nothing arrived on any connection of the app.
    package mutating func lost(written position: Int64, isSilent: Bool = false, into closed: inout [Closed]) {
        written = max(written, position)
        let written = written
        closeAll(into: &closed) { entry in
            (entry.end >= 0 && entry.end <= written ? .inDoubt : .notProcessed, .neverSent)
        }
        for index in closed.indices where closed[index].kind == .inDoubt {
            closed[index].connectionDied = true
            closed[index].wasSilent = isSilent
        }
    }

    /// Closes and returns the next entry that has timed out at `nowNs`, or returns `nil`. An entry is in doubt if no
    /// response came within the timeout after END_STREAM, and not processed if its body could not be sent within the
    /// timeout. Returns `.connection`, and closes nothing, if no other entry was answered in that time.
    package mutating func expire(nowNs: Int64) -> Expiry? {
        if deadlineNs(of: .sent) <= nowNs { return expire(first(of: .sent), .inDoubt) }
        return deadlineNs(of: .waiting) <= nowNs ? expire(first(of: .waiting), .notProcessed) : nil
    }

    private mutating func expire(_ ticket: UInt32, _ kind: Completion.Kind) -> Expiry {
        let entry = entries[Int(ticket)]
        if entry.answersBefore == answers { return .connection }
        return .entry(stream: entry.stream, close(ticket, kind, .refusedByPeer))
    }

    /// The monotonic time at which the next entry times out, or `Int64.max` if no timeout is running.
    package var nextDeadlineNs: Int64 { min(deadlineNs(of: .sent), deadlineNs(of: .waiting)) }

    /// Returns when the first entry of a list times out, or `Int64.max` if no timeout is running.
    private func deadlineNs(of list: List) -> Int64 {
        let ticket = first(of: list)
        guard ticket != Self.none else { return .max }
        let entry = entries[Int(ticket)]
        let sinceNs = list == .sent ? entry.sentNs : entry.openedNs
        return list == .sent && sinceNs == 0 ? .max : sinceNs + timeoutNs
    }

    private func first(of list: List) -> UInt32 { ends[list.rawValue].first }

    // MARK: Entries

    private func isOpen(_ ticket: UInt32) -> Bool {
        Int(ticket) < entries.count && entries[Int(ticket)].list != .free
    }

    private func kernelHas(_ ticket: UInt32) -> Bool {
        let end = entries[Int(ticket)].end
        return end >= 0 && end <= written
    }

    /// - Parameter unprocessed: the reason if `kind` is `notProcessed`.
    private mutating func close(
        _ ticket: UInt32, _ kind: Completion.Kind, _ unprocessed: Completion.Unprocessed = .neverSent
    ) -> Closed {
        let entry = entries[Int(ticket)]
        release(ticket)
        return Closed(
            id: entry.id, kind: kind, unprocessed: kind == .notProcessed ? unprocessed : .neverSent,
            sentAtMs: entry.openedMs, token: entry.token, connectionDied: false)
    }

    private mutating func closeAll(
        into closed: inout [Closed], _ end: (Entry) -> (kind: Completion.Kind, unprocessed: Completion.Unprocessed)?
    ) {
        for list in [List.sent, .waiting] {
            var ticket = first(of: list)
            while ticket != Self.none {
                let next = entries[Int(ticket)].next
                if let end = end(entries[Int(ticket)]) { closed.append(close(ticket, end.kind, end.unprocessed)) }
                ticket = next
            }
        }
    }

    private mutating func release(_ ticket: UInt32) {
        if unstamped == ticket { unstamped = entries[Int(ticket)].next }
        unlink(ticket)
        entries[Int(ticket)].list = .free
        entries[Int(ticket)].next = free
        free = ticket
        count -= 1
    }

    private mutating func append(_ ticket: UInt32, to list: List) {
        let last = ends[list.rawValue].last
        entries[Int(ticket)].list = list
        entries[Int(ticket)].previous = last
        entries[Int(ticket)].next = Self.none
        if last != Self.none { entries[Int(last)].next = ticket } else { ends[list.rawValue].first = ticket }
        ends[list.rawValue].last = ticket
    }

    private mutating func unlink(_ ticket: UInt32) {
        let entry = entries[Int(ticket)]
        let list = entry.list.rawValue
        if entry.previous != Self.none { entries[Int(entry.previous)].next = entry.next }
        if entry.next != Self.none { entries[Int(entry.next)].previous = entry.previous }
        if ends[list].first == ticket { ends[list].first = entry.next }
        if ends[list].last == ticket { ends[list].last = entry.previous }
    }
}

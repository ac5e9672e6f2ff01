package import PushTransport

/// The resend window of one HTTP/2 connection: which notifications are on it, and what each one's end means.
///
/// A value machine, no I/O and no clock. An entry opens when a request is handed to the connection and closes exactly
/// once; how it closes is the table of <doc:ResendWindow>. Positions are those of the connection's plaintext: a request
/// whose END_STREAM the kernel never had cannot have been processed. `ticket` names an entry while it is open.
package struct Window: Sendable {
    package struct Closed: Equatable, Sendable {
        package var id: NotificationID
        package var kind: Completion.Kind
        /// With `notProcessed`. The peer refused it by REFUSED_STREAM or a GOAWAY below it, or by a reset or no window
        /// before its end was out; or it discarded it behind another one that it refused; or it never left this process
        /// whole, through no doing of the peer's.
        package var unprocessed = Completion.Unprocessed.neverSent
        package var sentAtMs: Int64
        /// Counts provider tokens: which one this request carried.
        package var token: UInt32
        package var connectionDied: Bool
        /// With `connectionDied`: it had fallen silent, which is no fault of a notification.
        package var wasSilent = false
    }

    /// What is over at a point in time.
    package enum Expiry: Equatable, Sendable {
        /// One entry, while others were answered: its stream is to be cancelled.
        case entry(stream: Int32, Closed)
        /// Nothing was answered while an entry waited: the connection is to be given up (`lost` closes its entries).
        case connection
    }

    private struct Entry {
        var id: NotificationID
        var stream: Int32 = 0
        var token: UInt32
        /// Where END_STREAM ends, or -1 while it is not in the output.
        var end: Int64 = -1
        var openedNs: Int64
        /// When the kernel had END_STREAM, or 0 while it is not known to have it.
        var sentNs: Int64 = 0
        var openedMs: Int64
        /// What `answers` was when its wait began.
        var answersBefore: UInt32 = 0
        var list: List = .free
        var previous: UInt32 = none
        var next: UInt32 = none
    }

    private enum End {
        case answered, inDoubt
        case notProcessed(Completion.Unprocessed)
    }

    private enum List: Int {
        /// END_STREAM is not in the output: in order of opening.
        case waiting
        /// END_STREAM is in the output: in order of its position.
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
    /// Of `waiting` and `sent`.
    private var ends: [2 of Ends] = .init(repeating: Ends())
    /// The first of `sent` the kernel is not known to have, if any.
    private var unstamped: UInt32 = none
    /// What the kernel has taken of the output.
    private var written: Int64 = 0
    /// Streams that the peer answered or ended; wraps.
    package private(set) var answers: UInt32 = 0

    package private(set) var count = 0

    package init(timeoutNs: Int64) { self.timeoutNs = timeoutNs }

    package var isEmpty: Bool { count == 0 }

    // MARK: Opening

    /// Opens an entry, to be followed by `handed` or `withdraw`.
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

    /// The connection refused it: as if it had never been opened.
    package mutating func withdraw(_ ticket: UInt32) {
        guard isOpen(ticket) else { return }
        release(ticket)
    }

    /// The connection took it on `stream`. `end` is that of its END_STREAM, `nil` if `bodySent` follows.
    package mutating func handed(_ ticket: UInt32, stream: Int32, end: Int64?) {
        precondition(isOpen(ticket), "a request handed over that was not opened")
        entries[Int(ticket)].stream = stream
        if let end { bodySent(ticket, end: end) }
    }

    /// END_STREAM is in the output and ends at `end`.
    package mutating func bodySent(_ ticket: UInt32, end: Int64) {
        guard isOpen(ticket), entries[Int(ticket)].list == .waiting else { return }
        unlink(ticket)
        entries[Int(ticket)].end = end
        append(ticket, to: .sent)
        if unstamped == Self.none { unstamped = ticket }
    }

    /// The kernel has the first `position` bytes of the output.
    package mutating func didWrite(upTo position: Int64, nowNs: Int64) {
        written = max(written, position)
        while unstamped != Self.none, entries[Int(unstamped)].end <= written {
            // 0 means not known, and the clock may begin there.
            entries[Int(unstamped)].sentNs = max(1, nowNs)
            entries[Int(unstamped)].answersBefore = answers
            unstamped = entries[Int(unstamped)].next
        }
    }

    // MARK: Closing

    /// Its response is complete. Returns `nil` if the entry was closed before, as for a late answer.
    package mutating func responded(_ ticket: UInt32) -> Closed? {
        answers &+= 1
        return isOpen(ticket) ? close(ticket, .answered) : nil
    }

    /// Its stream ended without a complete response. A status that had come decides (a body cut off).
    package mutating func ended(_ ticket: UInt32, isRefused: Bool, status: UInt16) -> Closed? {
        answers &+= 1
        guard isOpen(ticket) else { return nil }
        if status != 0 { return close(ticket, .answered) }
        return close(ticket, isRefused || !kernelHas(ticket) ? .notProcessed(.refusedByPeer) : .inDoubt)
    }

    /// A GOAWAY: streams above `last` were not processed; the others go on. The next one can only be lower.
    ///
    /// - Parameter isGraceful: the peer answers requests and ends the connection in order. Then only the first of those
    ///   streams can be the reason, and the others were discarded behind it.
    package mutating func goneAway(last: Int32, isGraceful: Bool, into closed: inout [Closed]) {
        let above = entries.lazy.filter { $0.list != .free && $0.stream > last }
        let first = isGraceful ? above.map(\.stream).min() : nil
        closeAll(into: &closed) { entry in
            guard entry.stream > last else { return nil }
            return .notProcessed(isGraceful && entry.stream != first ? .discarded : .refusedByPeer)
        }
    }

    /// The connection is no more; the kernel had taken `position` bytes of the output.
    ///
    /// - Parameter isSilent: it was given up because nothing came any more, here or elsewhere.
    package mutating func lost(written position: Int64, isSilent: Bool = false, into closed: inout [Closed]) {
        written = max(written, position)
        let written = written
        closeAll(into: &closed) { entry in
            entry.end >= 0 && entry.end <= written ? .inDoubt : .notProcessed(.neverSent)
        }
        for index in closed.indices where closed[index].kind == .inDoubt {
            closed[index].connectionDied = true
            closed[index].wasSilent = isSilent
        }
    }

    /// Closes the next entry whose time is over at `nowNs`, if any: in doubt when no response came within the timeout
    /// after END_STREAM was sent; not processed when its body could not be sent for as long. `.connection`: nothing
    /// else was answered meanwhile either, and nothing is closed.
    package mutating func expire(nowNs: Int64) -> Expiry? {
        if let deadlineNs = deadlineNs(of: .sent), deadlineNs <= nowNs { return expire(first(of: .sent), .inDoubt) }
        if let deadlineNs = deadlineNs(of: .waiting), deadlineNs <= nowNs {
            return expire(first(of: .waiting), .notProcessed(.refusedByPeer))
        }
        return nil
    }

    private mutating func expire(_ ticket: UInt32, _ end: End) -> Expiry {
        let entry = entries[Int(ticket)]
        if entry.answersBefore == answers { return .connection }
        return .entry(stream: entry.stream, close(ticket, end))
    }

    /// When `expire` has something to do next, by the monotonic clock, if anything is waited for.
    package var nextDeadlineNs: Int64? {
        let deadlineNs = min(deadlineNs(of: .sent) ?? .max, deadlineNs(of: .waiting) ?? .max)
        return deadlineNs == .max ? nil : deadlineNs
    }

    /// When the time of a list's first entry is over; `nil` while it does not run.
    private func deadlineNs(of list: List) -> Int64? {
        let ticket = first(of: list)
        guard ticket != Self.none else { return nil }
        let entry = entries[Int(ticket)]
        let sinceNs = list == .sent ? entry.sentNs : entry.openedNs
        return list == .sent && sinceNs == 0 ? nil : sinceNs + timeoutNs
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

    private mutating func close(_ ticket: UInt32, _ end: End) -> Closed {
        let entry = entries[Int(ticket)]
        release(ticket)
        var closed = Closed(
            id: entry.id, kind: .notProcessed, sentAtMs: entry.openedMs, token: entry.token, connectionDied: false)
        switch end {
        case .answered: closed.kind = .answered
        case .inDoubt: closed.kind = .inDoubt
        case .notProcessed(let unprocessed): closed.unprocessed = unprocessed
        }
        return closed
    }

    private mutating func closeAll(into closed: inout [Closed], _ end: (Entry) -> End?) {
        for list in [List.sent, .waiting] {
            var ticket = first(of: list)
            while ticket != Self.none {
                let next = entries[Int(ticket)].next
                if let end = end(entries[Int(ticket)]) { closed.append(close(ticket, end)) }
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

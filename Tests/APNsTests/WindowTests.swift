@testable import APNs
import Delivery
import Testing

extension Window {
    /// Opens an entry and hands it to the connection.
    @discardableResult
    fileprivate mutating func add(_ number: UInt32, stream: Int32, end: Int64?, nowNs: Int64 = 10) -> UInt32 {
        let ticket = open(WindowTests.id(number), token: 1, nowNs: nowNs, nowMs: 1_000 + Int64(number))
        handed(ticket, stream: stream, end: end)
        return ticket
    }
}

/// Tests each row of the table in <doc:ResendWindow>.
@Suite struct WindowTests {
    static let timeoutNs: Int64 = 30_000

    static func id(_ number: UInt32) -> NotificationID { NotificationID(slot: NotificationSlot(number), generation: 7) }

    static func closed(
        _ number: UInt32, _ kind: Completion.Kind, unprocessed: Completion.Unprocessed = .neverSent, token: UInt32 = 1,
        died: Bool = false
    ) -> Window.Closed {
        Window.Closed(
            id: id(number), kind: kind, unprocessed: unprocessed, sentAtMs: 1_000 + Int64(number), token: token,
            connectionDied: died)
    }

    /// Returns a window with streams 1, 3, 5, … whose END_STREAMs end at 100, 200, 300, …, and the tickets.
    static func window(_ count: UInt32, kernelHas: Int64 = .max) -> (Window, [UInt32]) {
        var window = Window(timeoutNs: timeoutNs)
        var tickets: [UInt32] = []
        for number in 0..<count {
            tickets.append(window.add(number, stream: Int32(number) * 2 + 1, end: Int64(number + 1) * 100))
        }
        window.didWrite(upTo: kernelHas, nowNs: 20)
        return (window, tickets)
    }

    @Test func `A complete response completes its notification`() {
        var (window, tickets) = Self.window(2)
        #expect(window.responded(tickets[1]) == Self.closed(1, .answered))
        #expect(window.count == 1)
        #expect(window.responded(tickets[1]) == nil)
        #expect(window.responded(tickets[0]) == Self.closed(0, .answered))
        #expect(window.isEmpty)
        #expect(window.nextDeadlineNs == .max)
    }

    /// After a graceful GOAWAY, only the first of the returned requests can be its reason.
    @Test(arguments: [Completion.Unprocessed.refusedByPeer, .discarded])
    func `A GOAWAY returns the entries above it and keeps the others`(kind: Completion.Unprocessed) {
        var (window, tickets) = Self.window(4)
        var closed: [Window.Closed] = []
        let isGraceful = kind == .discarded
        window.goneAway(last: 3, isGraceful: isGraceful, into: &closed)
        #expect(
            closed == [
                Self.closed(2, .notProcessed, unprocessed: .refusedByPeer),
                Self.closed(3, .notProcessed, unprocessed: kind),
            ])
        #expect(window.count == 2)
        // nghttp2 then reports each of these streams as refused too, but their entries are already closed.
        #expect(window.ended(tickets[2], isRefused: true) == nil)
        #expect(window.responded(tickets[0]) == Self.closed(0, .answered))
        #expect(window.responded(tickets[1]) == Self.closed(1, .answered))
    }

    /// The kernel has the whole request only if it has accepted 100 bytes.
    @Test(
        arguments: [
            (100, true, .notProcessed, true), (100, false, .inDoubt, false), (99, false, .notProcessed, true),
            (99, true, .notProcessed, true),
        ] as [(Int64, Bool, Completion.Kind, Bool)])
    func `A stream without a response is decided by what the kernel accepted`(
        kernelHas: Int64, isRefused: Bool, kind: Completion.Kind, countsAsRefused: Bool
    ) {
        var (window, tickets) = Self.window(1, kernelHas: kernelHas)
        let waiting = window.add(1, stream: 3, end: nil)
        let closed = window.ended(tickets[0], isRefused: isRefused)
        #expect(closed == Self.closed(0, kind, unprocessed: countsAsRefused ? .refusedByPeer : .neverSent))
        // The end of a waiting body has not been sent at all.
        #expect(window.ended(waiting, isRefused: false) == Self.closed(1, .notProcessed, unprocessed: .refusedByPeer))
    }

    @Test(arguments: [
        (written: Int64(0), inDoubt: 0), (99, 0), (100, 1), (199, 1), (200, 2), (300, 3), (5_000, 3),
    ])
    func `A lost connection leaves the requests in doubt that the kernel accepted`(written: Int64, inDoubt: Int) {
        var (window, _) = Self.window(3, kernelHas: 0)
        window.add(9, stream: 99, end: nil, nowNs: 10)
        var closed: [Window.Closed] = []
        window.lost(written: written, into: &closed)
        #expect(closed.count == 4)
        #expect(window.isEmpty)
        for (index, entry) in closed.enumerated() {
            #expect(entry.kind == (index < inDoubt ? .inDoubt : .notProcessed))
            #expect(entry.connectionDied == (index < inDoubt))
        }
        #expect(closed.last == Self.closed(9, .notProcessed))
    }

    @Test func `The response timeout starts at END_STREAM`() {
        var (window, tickets) = Self.window(3, kernelHas: 100)
        #expect(window.nextDeadlineNs == 20 + Self.timeoutNs)
        window.didWrite(upTo: 200, nowNs: 5_000)
        // The third request was never written, so its timeout has not started.
        #expect(window.responded(tickets[0]) != nil)
        #expect(window.nextDeadlineNs == 5_000 + Self.timeoutNs)
        #expect(window.expire(nowNs: 4_999 + Self.timeoutNs) == nil)
        #expect(window.expire(nowNs: 5_000 + Self.timeoutNs) == .entry(stream: 3, Self.closed(1, .inDoubt)))
        #expect(window.expire(nowNs: .max - Self.timeoutNs) == nil)
        #expect(window.responded(tickets[1]) == nil)
        #expect(window.count == 1)
    }

    @Test func `A timeout blames the connection if nothing was answered since the request was sent`() {
        var (window, tickets) = Self.window(2)
        #expect(window.responded(tickets[0]) != nil)
        window.add(7, stream: 9, end: 900, nowNs: 30)
        window.add(8, stream: 11, end: nil, nowNs: 30)
        window.didWrite(upTo: 900, nowNs: 40)
        // The second request was sent before the first one was answered.
        #expect(window.expire(nowNs: 40 + Self.timeoutNs) == .entry(stream: 3, Self.closed(1, .inDoubt)))
        #expect(window.expire(nowNs: 40 + Self.timeoutNs) == .connection)
        #expect(window.count == 2)
        var closed: [Window.Closed] = []
        window.lost(written: 900, isSilent: true, into: &closed)
        var silent = Self.closed(7, .inDoubt, died: true)
        silent.wasSilent = true
        #expect(closed == [silent, Self.closed(8, .notProcessed)])
    }

    @Test func `An entry's timeout starts even if the first unsent entry closes`() {
        var (window, tickets) = Self.window(3, kernelHas: 0)
        #expect(window.ended(tickets[0], isRefused: true) != nil)
        window.didWrite(upTo: 300, nowNs: 70)
        #expect(window.nextDeadlineNs == 70 + Self.timeoutNs)
        #expect(window.expire(nowNs: 70 + Self.timeoutNs) == .connection)
    }

    /// Answers that arrived before the kernel accepted a request, or before its body was delayed, do not count.
    @Test func `Only answers after a request was sent show that the connection works`() {
        var (window, tickets) = Self.window(2, kernelHas: 100)
        #expect(window.responded(tickets[0]) != nil)
        window.didWrite(upTo: 200, nowNs: 50)
        #expect(window.expire(nowNs: 50 + Self.timeoutNs) == .connection)
        (window, tickets) = Self.window(1)
        #expect(window.responded(tickets[0]) != nil)
        window.add(1, stream: 3, end: nil, nowNs: 30)
        #expect(window.expire(nowNs: 30 + Self.timeoutNs) == .connection)
    }

    @Test func `The next deadline is the earlier one of a sent request and a delayed body`() {
        var window = Window(timeoutNs: Self.timeoutNs)
        let slow = window.add(0, stream: 1, end: nil, nowNs: 10)
        window.add(1, stream: 3, end: 100, nowNs: 10)
        window.didWrite(upTo: 100, nowNs: 50)
        #expect(window.nextDeadlineNs == 10 + Self.timeoutNs, "The delayed body has the earlier deadline")
        _ = window.ended(slow, isRefused: true)
        #expect(window.nextDeadlineNs == 50 + Self.timeoutNs)
        window.add(2, stream: 5, end: nil, nowNs: 90)
        #expect(window.nextDeadlineNs == 50 + Self.timeoutNs, "The earlier request has the earlier deadline")
    }

    @Test func `The timeout of a delayed body starts at its end`() {
        var window = Window(timeoutNs: Self.timeoutNs)
        let slow = window.add(0, stream: 1, end: nil, nowNs: 10)
        window.add(1, stream: 3, end: 100, nowNs: 10)
        window.didWrite(upTo: 100, nowNs: 50)
        _ = window.responded(.max)
        window.bodySent(slow, end: 200)
        #expect(window.nextDeadlineNs == 50 + Self.timeoutNs)
        window.didWrite(upTo: 200, nowNs: 900)
        #expect(window.expire(nowNs: 50 + Self.timeoutNs) == .entry(stream: 3, Self.closed(1, .inDoubt)))
        #expect(window.nextDeadlineNs == 900 + Self.timeoutNs)
    }
}

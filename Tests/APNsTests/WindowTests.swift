@testable import APNs
import Bytes
import Delivery
import Testing

/// The table of <doc:ResendWindow>, row by row, as traces.
@Suite struct WindowTests {
    static let timeoutNs: Int64 = 30_000

    static func id(_ number: UInt32) -> NotificationID { NotificationID(slot: NotificationSlot(number), generation: 7) }

    static func closed(
        _ number: UInt32, _ kind: Completion.Kind, isRefused: Bool = false, token: UInt32 = 1, died: Bool = false
    ) -> Window.Closed {
        Window.Closed(
            id: id(number), kind: kind, isRefused: isRefused, sentAtMs: 1_000 + Int64(number), token: token,
            connectionDied: died)
    }

    /// A window with streams 1, 3, 5, ...: END_STREAMs at 100, 200, 300, ..., and the tickets.
    static func window(_ count: UInt32, kernelHas: Int64 = .max) -> (Window, [UInt32]) {
        var window = Window(timeoutNs: timeoutNs)
        var tickets: [UInt32] = []
        for number in 0..<count {
            let ticket = window.open(id(number), token: 1, nowNs: 10, nowMs: 1_000 + Int64(number))
            window.handed(ticket, stream: Int32(number) * 2 + 1, end: Int64(number + 1) * 100)
            tickets.append(ticket)
        }
        window.kernelTook(kernelHas, nowNs: 20)
        return (window, tickets)
    }

    @Test func `Response complete`() {
        var (window, tickets) = Self.window(2)
        #expect(window.responded(tickets[1]) == Self.closed(1, .answered))
        #expect(window.count == 1)
        #expect(window.responded(tickets[1]) == nil)
        #expect(window.responded(tickets[0]) == Self.closed(0, .answered))
        #expect(window.isEmpty)
        #expect(window.nextDeadlineNs == nil)
    }

    @Test func `Go away resends what is above and keeps the rest`() {
        var (window, tickets) = Self.window(4)
        var closed: [Window.Closed] = []
        window.goneAway(last: 3, into: &closed)
        #expect(closed == [2, 3].map { Self.closed($0, .notProcessed, isRefused: true) })
        #expect(window.count == 2)
        // nghttp2 says refused for each of them, too: nobody is there any more.
        #expect(window.ended(tickets[2], isRefused: true, status: 0) == nil)
        #expect(window.responded(tickets[0]) == Self.closed(0, .answered))
        #expect(window.responded(tickets[1]) == Self.closed(1, .answered))
    }

    @Test func `Two go aways the first with the largest ID`() {
        var (window, _) = Self.window(3)
        var closed: [Window.Closed] = []
        window.goneAway(last: .max, into: &closed)
        #expect(closed.isEmpty)
        window.goneAway(last: 1, into: &closed)
        #expect(closed == [1, 2].map { Self.closed($0, .notProcessed, isRefused: true) })
        #expect(window.count == 1)
    }

    @Test func `Go away with nothing processed`() {
        var (window, _) = Self.window(2)
        var closed: [Window.Closed] = []
        window.goneAway(last: 0, into: &closed)
        #expect(closed.map(\.kind) == [.notProcessed, .notProcessed] && closed.allSatisfy(\.isRefused))
        #expect(window.isEmpty)
    }

    @Test func `Refused stream is not processed`() {
        var (window, tickets) = Self.window(1)
        #expect(window.ended(tickets[0], isRefused: true, status: 0) == Self.closed(0, .notProcessed, isRefused: true))
    }

    @Test func `Another reset is in doubt`() {
        var (window, tickets) = Self.window(1)
        #expect(window.ended(tickets[0], isRefused: false, status: 0) == Self.closed(0, .inDoubt))
    }

    @Test func `A reset before end stream was written is not processed`() {
        var (window, tickets) = Self.window(2, kernelHas: 199)
        #expect(window.ended(tickets[0], isRefused: false, status: 0) == Self.closed(0, .inDoubt))
        #expect(window.ended(tickets[1], isRefused: false, status: 0) == Self.closed(1, .notProcessed, isRefused: true))
    }

    @Test func `A body cut off is decided by its status`() {
        var (window, tickets) = Self.window(2)
        #expect(window.ended(tickets[0], isRefused: false, status: 410) == Self.closed(0, .answered))
        #expect(window.ended(tickets[1], isRefused: true, status: 503) == Self.closed(1, .answered))
    }

    @Test(arguments: [
        (written: Int64(0), inDoubt: 0), (99, 0), (100, 1), (199, 1), (200, 2), (300, 3), (5_000, 3),
    ])
    func `A lost connection leaves in doubt what the kernel had`(written: Int64, inDoubt: Int) {
        var (window, _) = Self.window(3, kernelHas: 0)
        let late = window.open(Self.id(9), token: 1, nowNs: 10, nowMs: 1_009)
        window.handed(late, stream: 99, end: nil)
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

    @Test func `No response in time counts from end stream`() {
        var (window, tickets) = Self.window(3, kernelHas: 100)
        #expect(window.nextDeadlineNs == 20 + Self.timeoutNs)
        window.kernelTook(200, nowNs: 5_000)
        // The third was never written: its time does not run.
        #expect(window.responded(tickets[0]) != nil)
        #expect(window.nextDeadlineNs == 5_000 + Self.timeoutNs)
        #expect(window.expire(nowNs: 4_999 + Self.timeoutNs) == nil)
        #expect(
            window.expire(nowNs: 5_000 + Self.timeoutNs) == .entry(stream: 3, Self.closed(1, .inDoubt)))
        #expect(window.expire(nowNs: .max - Self.timeoutNs) == nil)
        #expect(window.responded(tickets[1]) == nil)
        #expect(window.count == 1)
    }

    @Test func `A body that cannot be sent in time is not processed`() {
        var window = Window(timeoutNs: Self.timeoutNs)
        let ticket = window.open(Self.id(0), token: 1, nowNs: 10, nowMs: 1_000)
        window.handed(ticket, stream: 1, end: nil)
        let quick = window.open(Self.id(1), token: 1, nowNs: 10, nowMs: 1_001)
        window.handed(quick, stream: 3, end: 100)
        #expect(window.responded(quick) != nil)
        #expect(window.nextDeadlineNs == 10 + Self.timeoutNs)
        #expect(
            window.expire(nowNs: 10 + Self.timeoutNs)
                == .entry(stream: 1, Self.closed(0, .notProcessed, isRefused: true)))
    }

    /// Whose fault it is when no response comes: the connection's, if nobody was answered meanwhile.
    @Test func `A connection that answers nobody is given up`() {
        var (window, tickets) = Self.window(2)
        #expect(window.responded(tickets[0]) != nil)
        let late = window.open(Self.id(7), token: 1, nowNs: 30, nowMs: 1_007)
        window.handed(late, stream: 9, end: 900)
        let unsent = window.open(Self.id(8), token: 1, nowNs: 30, nowMs: 1_008)
        window.handed(unsent, stream: 11, end: nil)
        window.kernelTook(900, nowNs: 40)
        // The second was sent before the first was answered.
        #expect(window.expire(nowNs: 40 + Self.timeoutNs) == .entry(stream: 3, Self.closed(1, .inDoubt)))
        #expect(window.expire(nowNs: 40 + Self.timeoutNs) == .connection)
        #expect(window.count == 2)
        var closed: [Window.Closed] = []
        window.lost(written: 900, isSilent: true, into: &closed)
        var silent = Self.closed(7, .inDoubt, died: true)
        silent.wasSilent = true
        #expect(closed == [silent, Self.closed(8, .notProcessed)])
    }

    /// A reset of another stream is a sign of life, too.
    @Test func `A reset is an answer`() {
        var (window, tickets) = Self.window(2)
        #expect(window.ended(tickets[1], isRefused: true, status: 0) != nil)
        #expect(window.expire(nowNs: 20 + Self.timeoutNs) == .entry(stream: 1, Self.closed(0, .inDoubt)))
    }

    /// Whoever is first among those the kernel has not yet closes; the next one's time runs all the same.
    @Test func `The time of the next runs when the first unsent one closes`() {
        var (window, tickets) = Self.window(3, kernelHas: 0)
        #expect(window.ended(tickets[0], isRefused: true, status: 0) != nil)
        window.kernelTook(300, nowNs: 70)
        #expect(window.nextDeadlineNs == 70 + Self.timeoutNs)
        #expect(window.expire(nowNs: 70 + Self.timeoutNs) == .connection)
    }

    /// What was answered while a request waited for the kernel says nothing about whether it is answered.
    @Test func `Only answers after a request was sent show that the connection lives`() {
        var (window, tickets) = Self.window(2, kernelHas: 100)
        #expect(window.responded(tickets[0]) != nil)
        window.kernelTook(200, nowNs: 50)
        #expect(window.expire(nowNs: 50 + Self.timeoutNs) == .connection)
    }

    /// The kernel takes some of them: the time of each begins when its own end was taken.
    @Test func `Each is timed from its own end`() {
        var (window, tickets) = Self.window(3, kernelHas: 100)
        window.kernelTook(299, nowNs: 60)
        #expect(window.responded(tickets[0]) != nil)
        #expect(window.nextDeadlineNs == 60 + Self.timeoutNs)
        #expect(window.responded(tickets[1]) != nil)
        #expect(window.nextDeadlineNs == nil, "the third has not been sent")
        window.kernelTook(300, nowNs: 80)
        #expect(window.nextDeadlineNs == 80 + Self.timeoutNs)
    }

    @Test func `The nearer of two deadlines is next`() {
        var window = Window(timeoutNs: Self.timeoutNs)
        let slow = window.open(Self.id(0), token: 1, nowNs: 10, nowMs: 0)
        window.handed(slow, stream: 1, end: nil)
        let quick = window.open(Self.id(1), token: 1, nowNs: 10, nowMs: 0)
        window.handed(quick, stream: 3, end: 100)
        window.kernelTook(100, nowNs: 50)
        #expect(window.nextDeadlineNs == 10 + Self.timeoutNs, "the body that waits")
        _ = window.ended(slow, isRefused: true, status: 0)
        #expect(window.nextDeadlineNs == 50 + Self.timeoutNs)
        let slower = window.open(Self.id(2), token: 1, nowNs: 90, nowMs: 0)
        window.handed(slower, stream: 5, end: nil)
        #expect(window.nextDeadlineNs == 50 + Self.timeoutNs, "the one that was sent before")
    }

    /// A reset while the body waits: nothing of its end was ever out.
    @Test func `A reset while the body waits is not in doubt`() {
        var (window, _) = Self.window(1)
        let slow = window.open(Self.id(1), token: 1, nowNs: 10, nowMs: 1_001)
        window.handed(slow, stream: 3, end: nil)
        #expect(window.ended(slow, isRefused: false, status: 0) == Self.closed(1, .notProcessed, isRefused: true))
    }

    /// What was answered before a request was opened says nothing about the connection since.
    @Test func `Only answers after a body began to wait show that the connection lives`() {
        var (window, tickets) = Self.window(1)
        #expect(window.responded(tickets[0]) != nil)
        let slow = window.open(Self.id(1), token: 1, nowNs: 30, nowMs: 1_001)
        window.handed(slow, stream: 3, end: nil)
        #expect(window.expire(nowNs: 30 + Self.timeoutNs) == .connection)
    }

    /// The kernel's position never goes back, whatever is said of it.
    @Test func `What the kernel had it keeps`() {
        var (window, tickets) = Self.window(2, kernelHas: 200)
        window.kernelTook(0, nowNs: 90)
        #expect(window.ended(tickets[0], isRefused: false, status: 0) == Self.closed(0, .inDoubt))
        var closed: [Window.Closed] = []
        window.lost(written: 0, into: &closed)
        #expect(closed.map(\.kind) == [.inDoubt])
    }

    /// Positions, times and stream ids at their ends.
    @Test func `Boundaries do not trap`() {
        var window = Window(timeoutNs: Self.timeoutNs)
        let last = window.open(Self.id(0), token: .max, nowNs: 0, nowMs: .max)
        window.handed(last, stream: .max, end: .max)
        window.kernelTook(.max, nowNs: 0)
        var closed: [Window.Closed] = []
        window.goneAway(last: .max, into: &closed)
        #expect(closed.isEmpty && window.nextDeadlineNs == 1 + Self.timeoutNs)
        window.goneAway(last: .min, into: &closed)
        #expect(closed.count == 1 && closed[0].isRefused && window.isEmpty)
        #expect(window.responded(last) == nil && window.ended(.max, isRefused: false, status: 200) == nil)
    }

    /// What never left is told apart from what the peer refused.
    @Test func `What never left was not refused`() {
        var (window, _) = Self.window(1, kernelHas: 0)
        var closed: [Window.Closed] = []
        window.lost(written: 99, into: &closed)
        #expect(closed == [Self.closed(0, .notProcessed)])
    }

    @Test func `A body that waited is timed from its end`() {
        var window = Window(timeoutNs: Self.timeoutNs)
        let slow = window.open(Self.id(0), token: 1, nowNs: 10, nowMs: 1_000)
        window.handed(slow, stream: 1, end: nil)
        let quick = window.open(Self.id(1), token: 1, nowNs: 10, nowMs: 1_001)
        window.handed(quick, stream: 3, end: 100)
        window.kernelTook(100, nowNs: 50)
        _ = window.responded(.max)
        window.bodySent(slow, end: 200)
        #expect(window.nextDeadlineNs == 50 + Self.timeoutNs)
        window.kernelTook(200, nowNs: 900)
        #expect(window.expire(nowNs: 50 + Self.timeoutNs) == .entry(stream: 3, Self.closed(1, .inDoubt)))
        #expect(window.nextDeadlineNs == 900 + Self.timeoutNs)
    }

    @Test func `What was refused was never there`() {
        var (window, _) = Self.window(1)
        let ticket = window.open(Self.id(5), token: 1, nowNs: 10, nowMs: 0)
        window.withdraw(ticket)
        #expect(window.count == 1)
        var closed: [Window.Closed] = []
        window.lost(written: .max, into: &closed)
        #expect(closed.map(\.id) == [Self.id(0)])
    }

    /// Whatever happens in whatever order, every entry closes exactly once.
    @Test(arguments: 0..<300)
    func `Every entry closes once`(seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        var window = Window(timeoutNs: 500)
        var tickets: [UInt32: UInt32] = [:]
        var waiting: [UInt32] = []
        var completions: [NotificationID: Int] = [:]
        var opened: UInt32 = 0
        var end: Int64 = 0
        var now: Int64 = 1
        func count(_ closed: Window.Closed?) {
            guard let closed else { return }
            completions[closed.id, default: 0] += 1
        }
        for _ in 0..<400 {
            now += Int64.random(in: 0...40, using: &random)
            var closed: [Window.Closed] = []
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<45:
                let ticket = window.open(Self.id(opened), token: 1, nowNs: now, nowMs: 0)
                tickets[opened] = ticket
                if Bool.random(using: &random) {
                    end += 10
                    window.handed(ticket, stream: Int32(opened) * 2 + 1, end: end)
                } else {
                    window.handed(ticket, stream: Int32(opened) * 2 + 1, end: nil)
                    waiting.append(opened)
                }
                opened += 1
            case 45..<60:
                window.kernelTook(Int64.random(in: 0...max(1, end), using: &random), nowNs: now)
            case 60..<70:
                if let number = waiting.popLast(), completions[Self.id(number)] == nil {
                    end += 10
                    window.bodySent(tickets[number]!, end: end)
                }
            case 70..<90:
                let number = UInt32.random(in: 0..<max(1, opened), using: &random)
                guard completions[Self.id(number)] == nil, let ticket = tickets[number] else { break }
                count(
                    Bool.random(using: &random)
                        ? window.responded(ticket)
                        : window.ended(ticket, isRefused: Bool.random(using: &random), status: 0))
            case 90..<97:
                while let expiry = window.expire(nowNs: now) {
                    switch expiry {
                    case .entry(_, let entry): count(entry)
                    case .connection: window.lost(written: end / 3, isSilent: true, into: &closed)
                    }
                }
            case 97: window.goneAway(last: Int32(opened), into: &closed)
            default: break
            }
            closed.forEach { count($0) }
            #expect(window.count == Int(opened) - completions.count)
            if let deadline = window.nextDeadlineNs { #expect(deadline > 0) }
        }
        var closed: [Window.Closed] = []
        window.lost(written: end / 2, into: &closed)
        closed.forEach { count($0) }
        #expect(window.isEmpty)
        #expect(completions.count == Int(opened))
        #expect(completions.values.allSatisfy { $0 == 1 })
    }
}

import Delivery
import PushRecords
import TestSupport
import Testing

@testable import APNs

/// Tests of the value types of the binary protocol: frames, answers, window, admission.
struct BinaryValueTests {
    // MARK: Frames

    private func frame(_ format: BinaryConfiguration.Format) -> [UInt8] {
        var frames = BinaryFrames()
        let token = Lent("00ff7aBC")
        let payload = Lent(#"{"aps":{}}"#)
        let count = frames.append(
            BinaryFrames.Fields(
                token: token.bytes, payload: payload.bytes, identifier: 0x0102_0304, expiry: 0x0506_0708, priority: 5),
            format)
        #expect(count == frames.output.count)
        return Array(frames.output)
    }

    /// The expected bytes are from Apple's tables of the three commands.
    @Test func `Each format is encoded as in Apple's documentation`() {
        let token: [UInt8] = [0x00, 0xFF, 0x7A, 0xBC]
        let payload = Array(#"{"aps":{}}"#.utf8)
        #expect(frame(.simple) == [0, 0, 4] + token + [0, 10] + payload)
        #expect(frame(.enhanced) == [1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 4] + token + [0, 10] + payload)
        let items: [UInt8] =
            [1, 0, 4] + token + [2, 0, 10] + payload + [3, 0, 4, 1, 2, 3, 4] + [4, 0, 4, 5, 6, 7, 8] + [5, 0, 1, 5]
        #expect(frame(.framed) == [2, 0, 0, 0, UInt8(items.count)] + items)
    }

    // MARK: Answers

    @Test(arguments: 0...6)
    func `An answer may arrive in pieces`(first: Int) {
        let bytes: [UInt8] = [8, 7, 0, 1, 2, 255]
        var reader = GatewayAnswerReader()
        let early = bytes[..<first].withUnsafeBytes { reader.read($0) }
        let late = bytes[first...].withUnsafeBytes { reader.read($0) }
        let answer = GatewayAnswerReader.Found.answer(GatewayAnswer(status: 7, identifier: 0x0001_02FF))
        #expect(early == (first == 6 ? answer : nil))
        #expect(late == answer)
    }

    @Test func `Invalid answer bytes are reported`() {
        var reader = GatewayAnswerReader()
        #expect([UInt8(72), 84].withUnsafeBytes { reader.read($0) } == .garbage(72))
    }

    /// Each status has the corresponding HTTP/2 reason, or a name of the binary protocol. The result status of an error
    /// is never 200.
    @Test func `Every gateway status has a reason and a verdict`() {
        let table = VerdictTable()
        func verdict(_ status: UInt8) -> (Verdict, String) {
            let answer = GatewayAnswer(status: status, identifier: 1)
            let text = answer.text ?? answer.reason.text?.description ?? ""
            return (table.row(reason: answer.reason, text: answer.text, status: answer.resultStatus).verdict, text)
        }
        let expected: [(UInt8, Verdict, String)] = [
            (1, .retry, "ProcessingError"), (2, .reject, "MissingDeviceToken"), (3, .reject, "MissingTopic"),
            (4, .reject, "PayloadEmpty"), (5, .reject, "InvalidTokenSize"), (6, .reject, "InvalidTopicSize"),
            (7, .reject, "PayloadTooLarge"), (8, .reject, "BadDeviceToken"), (128, .reject, "ProtocolError"),
            (255, .retry, "UnknownError"), (200, .retry, "GatewayStatus200"), (9, .retry, "GatewayStatus9"),
        ]
        for (status, wanted, text) in expected {
            #expect(verdict(status) == (wanted, text), "status \(status)")
        }
        for status in UInt8.min...255 { #expect(GatewayAnswer(status: status, identifier: 1).resultStatus != 200) }
    }

    // MARK: The window

    @Test func `Identifiers distinguish open, closed and unknown entries`() {
        var window = BinaryWindow()
        for number in UInt32(1)...300 {
            window.open(
                BinaryWindow.Entry(
                    id: NotificationID(slot: NotificationSlot(number), generation: 1), end: Int64(number) * 10,
                    openedMs: 0, bytes: 10, isFence: false))
        }
        window.left(upTo: 3_000, nowNs: 1)
        for _ in 0..<5 { _ = window.removeFirst() }
        #expect(window.place(of: 6) == .open(before: 0))
        #expect(window.place(of: 300) == .open(before: 294))
        #expect(window.place(of: 5) == .closed(after: 0))
        #expect(window.place(of: 1) == .closed(after: 4))
        #expect(window.place(of: 0) == .unknown)
        #expect(window.place(of: 301) == .unknown)
        #expect(window.place(of: .max) == .unknown)
        #expect(window.nextIdentifier == 301)
    }

    // MARK: The session

    /// Returns a session with identifiers from 1 on and frames of ten bytes, which were acknowledged at once.
    private func session(_ count: UInt32, leftNs: Int64) -> BinarySession {
        var session = BinarySession()
        for number in 1...count {
            session.open(
                NotificationID(slot: NotificationSlot(number), generation: 1), bytes: 10, openedMs: 1, nowNs: leftNs)
        }
        session.window.left(upTo: Int64(count) * 10, nowNs: leftNs)
        return session
    }

    /// After a pause of the process (SIGSTOP, a paused container), the wait returns before the socket is read, and the
    /// clock shows that the window has passed.
    @Test func `An unread error in the socket is not silence`() {
        var session = session(5, leftNs: 1_000)
        var said: [Completion] = []
        #expect(session.settleSilent(windowNs: 2_000, nowNs: 1_100) { said.append($0) } == 0)
        #expect(session.settleSilent(windowNs: 2_000, nowNs: 9_000) { said.append($0) } == 0)
        let meaning = session.answered(
            GatewayAnswer(status: 8, identifier: 2), resendsDiscarded: true, nowNs: 9_010
        ) { said.append($0) }
        #expect(meaning == .decided(settled: 2, discarded: 3, byFence: false))
        #expect(said.map(\.status) == [200, 8, 0, 0, 0])
        #expect(said.allSatisfy { !$0.isPresumed })
    }

    /// The window is longer than the limit of a peer's silence.
    @Test func `A peer with nothing to acknowledge is not silent`() {
        var session = session(1, leftNs: 1_000)
        #expect(!session.isSilent(forNs: 500, nowNs: 5_000))
        session.open(NotificationID(slot: NotificationSlot(2), generation: 1), bytes: 10, openedMs: 1, nowNs: 5_000)
        #expect(!session.isSilent(forNs: 500, nowNs: 5_499))
        session.open(NotificationID(slot: NotificationSlot(3), generation: 1), bytes: 10, openedMs: 1, nowNs: 5_400)
        #expect(session.isSilent(forNs: 500, nowNs: 5_500))
    }

    /// According to the shutdown, nothing was processed, but silence had accepted some notifications.
    @Test func `A shutdown without processed notifications reports those that silence accepted`() {
        var session = session(3, leftNs: 1_000)
        _ = session.settleSilent(windowNs: 100, nowNs: 2_000) { _ in }
        #expect(session.settleSilent(windowNs: 100, nowNs: 2_000) { _ in } == 3)
        session.open(NotificationID(slot: NotificationSlot(4), generation: 1), bytes: 10, openedMs: 1, nowNs: 2_000)
        let shutdown = GatewayAnswer(status: 10, identifier: 0)
        #expect(session.answered(shutdown, resendsDiscarded: true, nowNs: 2_500) { _ in } == .unmatched(lostAtMost: 3))
        var said: [Completion] = []
        #expect(session.ended(written: 40, isSilent: false) { said.append($0) } == 1)
        #expect(said.map(\.kind) == [.inDoubt])
        // Silence had accepted nothing, so nothing is lost.
        var fresh = self.session(2, leftNs: 1_000)
        #expect(
            fresh.answered(shutdown, resendsDiscarded: true, nowNs: 2_500) { _ in }
                == .decided(settled: 0, discarded: 2, byFence: false))
    }

    // MARK: Admission

    @Test func `Closes without an answer halve the limit down to one`() {
        var admission = BinaryAdmission(most: 100_000)
        #expect(admission.limit == 100_000)
        // The new limit depends on the number of notifications settled on the connection.
        admission.ended(open: 20_000, settled: 4_000)
        #expect(admission.limit == 1_000)
        admission.ended(open: 1_000, settled: 10)
        #expect(admission.limit == 100)
        var limits: [Int] = []
        for _ in 0..<8 {
            admission.ended(open: admission.limit, settled: 0)
            limits.append(admission.limit)
        }
        #expect(limits == [50, 25, 12, 6, 3, 1, 1, 1])
        // The limit doubles as notifications settle.
        for _ in 0..<3 { admission.settled(admission.limit) }
        #expect(admission.limit == 8)
        admission.ended(open: 0, settled: 0)
        #expect(admission.limit == 8)
        var first = BinaryAdmission(most: 100_000)
        first.ended(open: 20_000, settled: 0)
        #expect(first.limit == 100)
    }

    @Test func `Errors that discard most notifications halve the limit, but not below two thousand`() {
        var admission = BinaryAdmission(most: 20_000)
        var limits: [Int] = []
        for _ in 0..<5 {
            admission.discarded()
            limits.append(admission.limit)
        }
        #expect(limits == [10_000, 5_000, 2_500, 2_000, 2_000])
        admission.settled(2_000)
        #expect(admission.limit == 4_000)
        var small = BinaryAdmission(most: 500)
        small.discarded()
        #expect(small.limit == 500)
    }
}

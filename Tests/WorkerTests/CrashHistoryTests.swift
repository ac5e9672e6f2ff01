import CLinux
import Testing

@testable import Worker

struct CrashHistoryTests {
    private let place = CrashHistory.Place(topic: "apns.requests", partition: 3, offset: 1_234)

    @Test func `Names of topics stay where they are, up to a number of them`() {
        func name(_ number: Int) -> UnsafeRawPointer? {
            var text = "topic.\(number)"
            return text.withUTF8 { crash_topic($0.baseAddress, Int32($0.count)) }
        }
        let first = name(0)
        #expect(first != nil && name(0) == first)
        #expect((1...Int(CRASH_TOPIC_LIMIT)).contains { name($0) == nil }, "more of them are not kept")
        #expect(name(0) == first)
    }

    /// As `crash_contain` appends it.
    private func note(_ signal: Int32 = 4, atMs: Int64 = 0, _ place: CrashHistory.Place?) -> String {
        guard let place else { return ";\(signal),\(atMs),-,-,-" }
        return ";\(signal),\(atMs),\(place.partition),\(place.offset),\(place.topic)"
    }

    @Test func `The second death at a record condemns it, and it alone`() {
        var history = CrashHistory(text: CrashHistory().text + note(atMs: 100, place))
        #expect(history.total == 1 && history.condemned.isEmpty)
        #expect(history.deaths == [CrashHistory.Death(signal: 4, atMs: 100, place: place)])
        #expect(history.deaths[0].signalName == "SIGILL")
        let neighbour = CrashHistory.Place(topic: "apns.requests", partition: 3, offset: 1_235)
        history = CrashHistory(text: history.text + note(11, atMs: 200, neighbour))
        #expect(history.total == 2 && history.condemned.isEmpty)
        history = CrashHistory(text: history.text + note(6, atMs: 300, place))
        #expect(history.total == 3 && history.condemned == [place])
        #expect(history.deaths.map(\.signalName) == ["SIGILL", "SIGSEGV", "SIGABRT"])
        history = CrashHistory(text: history.text + note(atMs: 400, nil))
        #expect(history.condemned == [place], "it stays condemned through other deaths")
    }

    @Test func `What is no note is none`() {
        #expect(CrashHistory(text: nil) == CrashHistory())
        for text in ["", ";", "x;4,1,1,1,t", "-1;4,1,1,1,t", "9223372036854775807;4,1,1,1,t"] {
            #expect(CrashHistory(text: text) == CrashHistory(), "\(text)")
        }
        let history = CrashHistory(
            text: "7;4,1,1,1;4,-1,-,-,-;4,1,99999999999,1,t;4,1,1,99999999999999999999,t;4,1,1,1,;;4,5,-,-,-")
        #expect(history.total == 8 && history.deaths.count == 1)
    }

    @Test func `Notes are bounded, the count is not`() {
        var history = CrashHistory()
        for offset in 0..<1_000 {
            let place = CrashHistory.Place(
                topic: String(repeating: "t", count: 249), partition: .max, offset: .max - Int64(offset))
            history = CrashHistory(text: history.text + note(atMs: .max - 1_000 + Int64(offset), place))
        }
        #expect(history.total == 1_000)
        #expect(history.deaths.count == CrashHistory.noteLimit)
        #expect(history.text.utf8.count < 32_768)
    }

    @Test func `Ten deaths within a minute, or three at no known record, are too many`() {
        func history(_ times: [Int64], _ place: CrashHistory.Place?) -> CrashHistory {
            CrashHistory(text: times.reduce("0") { $0 + note(atMs: $1, place) })
        }
        let ten = (0..<10).map { Int64($0) * 1_000 }
        #expect(history(ten, place).excess(nowMs: 9_000) == "died 10 times within 60 s")
        #expect(history(ten, place).excess(nowMs: 60_000) != nil)
        #expect(history(ten, place).excess(nowMs: 60_001) == nil)
        #expect(history(Array(ten.dropLast()), place).excess(nowMs: 9_000) == nil)
        #expect(history([0, 1, 2], nil).excess(nowMs: 3) == "died 3 times within 60 s at no record that is known")
        #expect(history([0, 1], nil).excess(nowMs: 3) == nil)
        // Another boot's clock says nothing.
        #expect(history([90_000, 90_001, 90_002], nil).excess(nowMs: 3) == nil)
    }

    @Test func `Deaths at a log that is another one condemn nothing of the new one, and still count as deaths`() {
        let other = CrashHistory.Place(topic: "apns.requests", partition: 4, offset: 1_234)
        var history = CrashHistory(text: "0" + note(atMs: 100, place) + note(atMs: 200, other))
        history = CrashHistory(text: history.text + note(atMs: 300, other))
        #expect(history.condemned == [other])
        let isForgotten = history.forgetOffsets(topic: place.topic, partition: place.partition)
        #expect(isForgotten && history.condemned == [other] && history.deaths.count == 3)
        #expect(history.deaths[0].place?.description == "apns.requests/3/gone")
        // What the next process is told, after a death at the same offset of the new log, and after another one.
        history = CrashHistory(text: history.text + note(atMs: 400, place))
        #expect(history.condemned == [other])
        history = CrashHistory(text: history.text + note(atMs: 500, place))
        #expect(history.condemned == [other, place])
        let areForgotten = history.forgetOffsets(topic: other.topic, partition: other.partition)
        let isAnyLeft = history.forgetOffsets(topic: other.topic, partition: other.partition)
        #expect(areForgotten && !isAnyLeft && history.condemned == [place])
        #expect(history.excess(nowMs: 600) == nil, "none of them is at no known record")
        // Two at what is gone are none at one record.
        history = CrashHistory(text: history.text + note(atMs: 600, nil))
        #expect(history.condemned == [place])
    }
}

@testable import APNsSimulator
import Bytes
import EventLoop
import HTTP2
import PushRecords
import Testing

/// A dialogue in memory, fed with what no client should send.
struct HostileInputTests {
    struct Memory {
        let service: Service
        let dialogue: Dialogue
        let now = LoopTime(monotonicNs: 1, wallMs: 1_700_000_000_000)

        init() throws {
            var options = SimulatorOptions()
            options.wantsProviderToken = false
            service = Service(options: options, keys: [], books: Books(), nowNs: 0)
            dialogue = try Dialogue(
                service: service, number: 0, hasCertificate: false,
                certificateUserID: nil)
        }

        func receive(_ bytes: [UInt8]) {
            bytes.withUnsafeBytes { dialogue.receive($0, now: now) }
            dialogue.consume(dialogue.sendable.count)
        }
    }

    /// What a client sends for a few requests, its preface included.
    static func conversation() throws -> [UInt8] {
        let client = try ClientSession()
        let server = try Memory()
        var bytes: [UInt8] = []
        func pass() throws {
            let output = Array(client.output)
            bytes += output
            try client.consumeOutput(output.count)
            output.withUnsafeBytes { server.dialogue.receive($0, now: server.now) }
            let answer = Array(server.dialogue.sendable)
            server.dialogue.consume(answer.count)
            try answer.withUnsafeBytes { try client.receive($0) }
            while client.nextEvent() != nil {}
        }
        try pass()
        for number in 0..<8 {
            var headers = HeaderList()
            headers.append(":method", "POST")
            headers.append(":scheme", "https")
            headers.append(":path", lent("/3/device/" + token(number % 2 == 0 ? "00" : "fa174101", number)), .never)
            headers.append(":authority", "localhost")
            headers.append("apns-topic", "com.example.app")
            _ = try client.submit(headers, body: lent(#"{"aps":{"alert":"Hi"}}"#), user: UInt32(number))
        }
        try pass()
        try pass()
        #expect(server.service.books.totals.requests == 8)
        return bytes
    }

    @Test func `Any cut gives the same books`() throws {
        let bytes = try Self.conversation()
        for cut in stride(from: 1, to: bytes.count, by: 7) {
            let memory = try Memory()
            memory.receive(Array(bytes[..<cut]))
            memory.receive(Array(bytes[cut...]))
            let totals = memory.service.books.totals
            #expect(totals.requests == 8 && totals.accepted == 4 && totals[.unregistered] == 4)
            #expect(memory.dialogue.ending == .none)
        }
    }

    @Test(arguments: 0..<400 as Range<UInt64>)
    func `Bytes that are wrong end the connection at worst`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var bytes = try Self.conversation()
        for _ in 0...Int(random.next() % 4) {
            let place = Int(random.next() % UInt64(bytes.count))
            switch random.next() % 3 {
            case 0: bytes[place] = UInt8(truncatingIfNeeded: random.next())
            case 1: bytes.remove(at: place)
            default: bytes.insert(UInt8(truncatingIfNeeded: random.next()), at: place)
            }
        }
        let memory = try Memory()
        while !bytes.isEmpty, memory.dialogue.ending == .none {
            let count = min(bytes.count, Int(random.next() % 200) + 1)
            memory.receive(Array(bytes[..<count]))
            bytes.removeFirst(count)
        }
        #expect(memory.service.books.totals.requests <= 9)
    }

    @Test func `What is no HTTP2 ends the connection`() throws {
        let memory = try Memory()
        memory.receive(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
        #expect(memory.dialogue.ending == .close)
    }
}

import PushRecords
import Testing

@testable import APNsSimulator

/// The gateway's protocol in memory: frames, checks, tokens that request answers, and the books.
struct GatewayDialogueTests {
    struct Memory {
        let books = Books()
        let dialogue: GatewayDialogue

        init(_ faults: String..., limit: Int = 2048) throws {
            dialogue = GatewayDialogue(
                service: GatewayService(books: books, faults: try GatewayFaults(faults), payloadLimit: limit))
        }

        func receive(_ bytes: [UInt8]) { bytes.withUnsafeBytes { dialogue.receive($0) } }

        /// The numbers of accepted, refused, unanswered and unprocessed notifications.
        var counts: [Int] {
            let totals = books.totals
            return [totals.accepted, totals.refused, totals.unanswered, totals.notProcessed]
        }

        var answer: [UInt8]? { dialogue.answer }
    }

    /// Notifications with every command, one with a bad token, and two that are discarded after it.
    @Test func `Frames can be split at any byte`() throws {
        let whole =
            Wire.simple(tokenBytes("01")) + Wire.enhanced(7, tokenBytes("02"))
            + Wire.frame(8, tokenBytes("03"), priority: 5)
            + Wire.framed(Wire.item(2, [123, 125]) + Wire.item(1, tokenBytes("04")))
            + Wire.frame(0x0102_0304, tokenBytes("fa170008")) + Wire.enhanced(10, tokenBytes("05"))
            + Wire.simple(tokenBytes("06"))
        for place in 0...whole.count {
            let memory = try Memory()
            memory.receive(Array(whole[..<place]))
            memory.receive(Array(whole[place...]))
            #expect(memory.counts == [4, 1, 0, 2], "split at \(place)")
            #expect(memory.answer == Wire.error(8, 0x0102_0304))
            #expect(memory.books.counts(ofToken: token("04")) == (1, 1))
            #expect(memory.books.counts(ofToken: token("05")) == (1, 0))
        }
    }

    /// Invalid notifications and their answers.
    static let wrongs: [(name: String, frame: [UInt8], status: UInt8, identifier: Int, reason: ReasonCode)] = [
        ("no token", Wire.framed(Wire.item(3, [0, 0, 0, 9]) + Wire.item(2, [123, 125])), 2, 9, .missingDeviceToken),
        ("an empty token", Wire.enhanced(9, []), 2, 9, .missingDeviceToken),
        ("a short token", Wire.enhanced(9, [1, 2, 3]), 5, 9, .badDeviceToken),
        ("a long token", Wire.frame(9, [UInt8](repeating: 1, count: 101)), 5, 9, .badDeviceToken),
        ("no payload", Wire.framed(Wire.item(1, tokenBytes("01")) + Wire.item(3, [0, 0, 0, 9])), 4, 9, .payloadEmpty),
        ("an empty payload", Wire.simple(tokenBytes("01"), ""), 4, 0, .payloadEmpty),
        ("a payload that is a list", Wire.frame(9, tokenBytes("01"), "[]"), 4, 9, .payloadEmpty),
        ("a long payload", Wire.frame(9, tokenBytes("01"), payload(2049)), 7, 9, .payloadTooLarge),
        ("an unknown item", Wire.framed(Wire.item(6, []) + Wire.item(3, [0, 0, 0, 9])), 128, 9, .other),
        ("item 0", Wire.framed(Wire.item(0, []) + Wire.item(3, [0, 0, 0, 9])), 128, 9, .other),
        ("a short identifier", Wire.framed(Wire.item(3, [0, 0, 9])), 128, 0, .other),
        ("a short expiry", Wire.framed(Wire.item(3, [0, 0, 0, 9]) + Wire.item(4, [1])), 128, 9, .other),
        ("priority 7", Wire.frame(9, tokenBytes("01"), priority: 7), 128, 9, .other),
        ("two tokens", Wire.framed(Wire.item(1, tokenBytes("01")) + Wire.item(1, tokenBytes("01"))), 128, 0, .other),
        ("an item beyond its frame", Wire.framed(Wire.item(3, [0, 0, 0, 9]) + [1, 0, 32, 1]), 128, 9, .other),
        ("half an item's head", Wire.framed(Wire.item(3, [0, 0, 0, 9]) + [1, 0]), 128, 9, .other),
        ("an unknown command", [3, 0, 0, 0, 0], 128, 0, .other),
        ("a frame without end", [2, 255, 255, 255, 255], 128, 0, .other),
    ]

    @Test(arguments: wrongs.indices)
    func `An invalid notification is answered with its status`(place: Int) throws {
        let wrong = Self.wrongs[place]
        let memory = try Memory()
        memory.receive(Wire.enhanced(1, tokenBytes("02")) + wrong.frame)
        #expect(memory.answer == Wire.error(wrong.status, wrong.identifier), "\(wrong.name)")
        #expect(memory.counts == [1, 1, 0, 0])
        #expect(memory.books.totals[wrong.reason] == 1)
    }

    @Test func `Payloads up to the limit are accepted`() throws {
        let memory = try Memory(limit: 256)
        memory.receive(Wire.frame(1, tokenBytes("01"), payload(256)))
        #expect(memory.counts == [1, 0, 0, 0])
        memory.receive(Wire.frame(2, tokenBytes("01"), payload(257)))
        #expect(memory.answer == Wire.error(7, 2))
    }

    @Test func `The longest possible frame is read and answered`() throws {
        let memory = try Memory()
        let long = [UInt8](repeating: 1, count: 65_535)
        let frame = [1] + Wire.number(5, 8) + Wire.sized(long) + Wire.sized(long)
        for start in stride(from: 0, to: frame.count, by: 10_000) {
            memory.receive(Array(frame[start..<min(start + 10_000, frame.count)]))
        }
        #expect(memory.answer == Wire.error(5, 0))
        #expect(memory.counts == [0, 1, 0, 0])
    }

    @Test(arguments: (1...255).map { GatewayStatus(rawValue: $0) }.filter { $0 != .shutdown })
    func `A token can request any status`(status: GatewayStatus) throws {
        let memory = try Memory()
        let digits = String(status.rawValue)
        let prefix = "fa17" + String(repeating: "0", count: 4 - digits.count) + digits
        memory.receive(Wire.frame(5, tokenBytes(prefix)) + Wire.frame(6, tokenBytes("01")))
        #expect(memory.answer == Wire.error(status.rawValue, 5))
        #expect(memory.counts == [0, 1, 0, 1])
        #expect(memory.books.totals[status.reason] == 1)
    }

    @Test(arguments: [
        ("fa170000", GatewayDialogue.Ending.close, [0, 0, 1, 1]), ("fa17f020", .close, [0, 0, 1, 1]),
        ("fa17f022", .close, [1, 0, 0, 1]), ("fa17f023", .reset, [0, 0, 1, 1]),
        ("fa170010", .status(.shutdown), [1, 0, 0, 1]),
    ])
    func `A token can end the connection`(prefix: String, ending: GatewayDialogue.Ending, counts: [Int]) throws {
        let memory = try Memory()
        memory.receive(Wire.frame(5, tokenBytes(prefix)) + Wire.frame(6, tokenBytes("01")))
        #expect(memory.dialogue.ending == ending)
        #expect(memory.counts == counts)
        #expect(memory.books.totals.cuts == (memory.answer == nil ? 1 : 0))
    }

    /// The HTTP/2 codes whose reasons correspond to a status of the gateway, and codes without such a status.
    @Test(
        arguments: [
            ("fa174001", 8), ("fa174006", 8), ("fa17400a", 2), ("fa17400b", 3), ("fa17400c", 4), ("fa174005", 6),
            ("fa174130", 7), ("fa175000", 1), ("fa175031", 10), ("fa174101", nil), ("fa174290", nil), ("fa17f001", nil),
            ("fa17000a", nil), ("fa170256", nil), ("fb174001", nil), ("fa174fff", nil),
        ] as [(String, UInt8?)])
    func `A token with an HTTP/2 code requests the corresponding status`(prefix: String, status: UInt8?) throws {
        let memory = try Memory()
        memory.receive(Wire.frame(5, tokenBytes(prefix)))
        #expect(memory.answer == status.map { Wire.error($0, 5) })
    }

    /// Discarded notifications do not count.
    @Test func `The ninth digit of a token limits how often the gateway applies its fault`() throws {
        let service = GatewayService(books: Books(), faults: GatewayFaults(), payloadLimit: 2048)
        func send(_ bytes: [UInt8]) -> GatewayDialogue.Ending? {
            let dialogue = GatewayDialogue(service: service)
            bytes.withUnsafeBytes { dialogue.receive($0) }
            return dialogue.ending
        }
        for prefix in ["fa1700082", "fa1700002"] {
            let frame = Wire.frame(5, tokenBytes(prefix))
            #expect(send(Wire.frame(4, tokenBytes("fa170007")) + frame + frame) != nil)
            for _ in 0..<2 { #expect(send(frame) != nil) }
            #expect(send(frame + frame) == nil)
        }
    }

    @Test func `The books count tokens that are accepted twice`() throws {
        let memory = try Memory()
        memory.receive(
            Wire.frame(1, tokenBytes("01")) + Wire.frame(2, tokenBytes("02")) + Wire.simple(tokenBytes("01")))
        #expect(memory.books.totals.acceptedAgain == 1)
        #expect(memory.books.totals.acceptedDistinct == 2)
        var rows: [String] = []
        memory.books.forEach { rows.append("\($0 == .none) \($1) \($2) \($3)") }
        #expect(rows == ["true \(token("01")) 2 2", "true \(token("02")) 1 1"])
    }

    @Test(arguments: [("close@2", nil), ("shutdown@2", Wire.error(10, 2))])
    func `A fault with a number N ends the connection after N notifications`(fault: String, answer: [UInt8]?) throws {
        let memory = try Memory(fault)
        for number in 1...5 { memory.receive(Wire.frame(number, tokenBytes("01", number))) }
        #expect(memory.dialogue.ending != nil && memory.answer == answer)
        #expect(memory.counts == [2, 0, 0, 3])
        #expect(memory.books.counts(ofToken: token("01", 5)) == (1, 0))
    }

    @Test func `A refusal ends the connection before a later shutdown`() throws {
        let memory = try Memory("shutdown@2", "close@3")
        memory.receive(
            Wire.frame(1, tokenBytes("01")) + Wire.frame(2, tokenBytes("01"), "") + Wire.frame(3, tokenBytes("01")))
        #expect(memory.answer == Wire.error(4, 2))
        #expect(memory.counts == [1, 1, 0, 1])
    }

    @Test func `Gateway faults are parsed, and the last one of a kind is used`() throws {
        let names = ["error-delay=200ms", "close@10", "shutdown@1", "split", "silent", "slow=100", "close@9"]
        let faults = try GatewayFaults(names)
        #expect(faults.names == names && faults.errorDelayNs == 200_000_000 && faults.isSplit)
        #expect(faults.closeAfter == 9 && faults.shutdownAfter == 1 && faults.bytesPerSecond == 100)
        #expect(try GatewayFaults(["slow"]).bytesPerSecond == 32_768)
    }

    @Test(arguments: [
        "", "error-delay", "error-delay=", "error-delay=5", "close", "close@", "close@0", "close@x", "Split", "slow=",
        "slow=0",
    ])
    func `An invalid gateway fault is refused`(text: String) {
        let error = #expect(throws: SimulatorError.self) { try GatewayFaults([text]) }
        #expect(error?.description.hasPrefix("gateway fault '\(text)': ") == true)
    }
}

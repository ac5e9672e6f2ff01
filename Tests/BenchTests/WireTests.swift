import Testing

@testable import apns_bench

@Suite struct WireTests {
    /// A client's preface and three frames, cut at every byte.
    @Test func framesAreFoundHoweverTheyAreCut() {
        let frames: [(type: UInt8, size: Int)] = [(4, 12), (1, 300), (0, 0), (9, 5)]
        var bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        for frame in frames {
            bytes += [0, UInt8(frame.size >> 8), UInt8(frame.size & 255), frame.type, 0, 0, 0, 0, 1]
            bytes += [UInt8](repeating: 1, count: frame.size)
        }
        for cut in 0...bytes.count {
            var sizes = FrameSizes()
            var seen: [String] = []
            for piece in [bytes[..<cut], bytes[cut...]] {
                Array(piece).withUnsafeBytes { piece in sizes.take(piece) { seen.append("\($0) \($1)") } }
            }
            #expect(seen == ["4 12", "1 300", "0 0", "9 5"], "cut at \(cut)")
        }
    }

    @Test func numbersOfAResult() {
        let text = #"{"a":"sent_at_ms","sent_at_ms":1790000000123,"settled_at_ms":5,"none":null}"#
        Array(text.utf8).withUnsafeBytes { bytes in
            #expect(ResultBook.number(after: "\"sent_at_ms\":", in: bytes) == 1_790_000_000_123)
            #expect(ResultBook.number(after: "\"settled_at_ms\":", in: bytes) == 5)
            #expect(ResultBook.number(after: "\"none\":", in: bytes) == nil)
            #expect(ResultBook.number(after: "\"other\":", in: bytes) == nil)
        }
    }

    @Test func theRequestOfAResult() throws {
        let text =
            #"{"outcome":"accepted","device_token":"\"offset\":9","settled_at_ms":5,"#
            + #""request":{"topic":"requests","partition":3,"offset":1234,"index":7}}"#
        try Array(text.utf8).withUnsafeBytes { bytes in
            let topic = Array(#""request":{"topic":"requests","#.utf8)
            let place = try #require(ResultBook.place(after: topic, in: bytes))
            #expect(place == (partition: 3, offset: 1234, index: 7))
            #expect(ResultBook.place(after: Array(#""request":{"topic":"request","#.utf8), in: bytes) == nil)
        }
    }

    /// Payloads are those of `Traffic.payload`; envelopes name tokens in the order of use.
    @Test func requestsAreWrittenInPlace() {
        let traffic = Traffic(devices: 7)
        #expect(Set(traffic.tokens).count == 7 && traffic.tokens.allSatisfy { $0.utf8.count == 64 })
        var request = RequestText(RequestForm(), traffic, partitions: 2)
        for number in [0, 12, 999_999_999] {
            request.set(record: number)
            #expect(String(decoding: request.value, as: UTF8.self) == Traffic.payload(number))
            #expect(String(decoding: request.key, as: UTF8.self) == traffic.tokens[number % 7])
        }
        var envelope = RequestText(RequestForm(shape: .envelope(tokens: 3), apps: 2), traffic, partitions: 2)
        envelope.set(record: 1)
        let tokens = traffic.tokens[3..<6].joined(separator: "\",\"")
        #expect(
            String(decoding: envelope.value, as: UTF8.self)
                == "{\"device_tokens\":[\"\(tokens)\"],\"headers\":{\"apns-topic\":\"com.example.bench.1\","
                + "\"apns-push-type\":\"alert\"},\"payload\":\(Traffic.payload(1))}")
        #expect(envelope.key.isEmpty && !envelope.hasHeaders && envelope.partition == 1)
    }

    @Test func aLineOfHistoryIsRead() throws {
        let line =
            #"{"at":"2026-01-31T12:00:00Z","commit":null,"count":1,"costs":{"payload":{"count":1,"cpu_us":5.5,"samples":[{"results":1}]}},"ratio":0.84,"budgets":[]}"#
        let entry = try HistoryEntry(json: line)
        #expect(entry.at == "2026-01-31T12:00:00Z" && entry.ratio == 0.84 && entry.cpuUs == ["payload": 5.5])
        #expect(throws: (any Error).self) { try HistoryEntry(json: "nonsense") }
    }
}

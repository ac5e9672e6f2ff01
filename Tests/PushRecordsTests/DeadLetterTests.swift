import PushRecords
import Testing

@Suite struct DeadLetterTests {
    @Test func `The record's headers are followed by the push-dlq headers`() {
        let original = [(lend("apns-topic"), lend("a\nb")), (lend("push-dlq-reason"), lend("older"))]
        let list = original.map { RecordHeader(name: $0.0, value: $0.1) }
        let topic = lend("apns.requests")
        let subject = lend([0x61, 0xFF, 0x0A])
        var writer = DeadLetterWriter()
        func write(_ detail: Detail, _ truncated: Int?) -> [String] {
            list.withUnsafeBufferPointer { list in
                let place = RequestPlace(topic: topic, partition: 3, offset: 1_234, index: 0)
                let headers = writer.headers(
                    original: list, place: place, timestampMs: 1_780_000_000_000, reason: .badEnvelope, detail: detail,
                    truncatedBytes: truncated)
                return headers.map { "\(text($0.name))=\(text($0.value))" }
            }
        }
        let untouched = ["apns-topic=a\nb", "push-dlq-reason=older", "push-dlq-reason=bad-envelope"]
        let place = [
            "push-dlq-topic=apns.requests", "push-dlq-partition=3", "push-dlq-offset=1234",
            "push-dlq-timestamp=1780000000000",
        ]
        #expect(
            write(Detail("it is wrong", subject), nil)
                == untouched + ["push-dlq-detail=it is wrong: a\u{FFFD}\\n"] + place)
        #expect(write(.none, 2_000_000) == untouched + place + ["push-dlq-truncated=2000000"])
    }

    /// librdkafka cannot read a record with more than 100,000 headers.
    @Test func `A dead letter has no headers of a record whose headers leave no room for its own`() {
        let topic = lend("apns.requests")
        var writer = DeadLetterWriter()
        for (count, kept) in [(99_990, 99_990), (99_991, 0)] {
            let original = [RecordHeader](repeating: RecordHeader(name: topic, value: topic), count: count)
            let names = original.withUnsafeBufferPointer { original in
                writer.headers(
                    original: original, place: RequestPlace(topic: topic, partition: 0, offset: 0, index: 0),
                    timestampMs: 0, reason: .notJSON, detail: .none
                ).map { text($0.name) }
            }
            #expect(names.count == kept + 5 && names[kept] == "push-dlq-reason")
            #expect(names[..<kept].allSatisfy { $0 == "apns.requests" })
        }
    }

    /// A dead letter that was produced again has two sets of headers.
    @Test func `A dead letter is read from its last push-dlq headers`() throws {
        let list = [
            HeaderField("apns-topic", "t"), HeaderField("push-dlq-reason", "older"),
            HeaderField("push-dlq-detail", "older"), HeaderField("push-dlq-truncated", "5"),
            HeaderField("push-dlq-reason", "not-json"), HeaderField("push-dlq-topic", "apns.requests"),
            HeaderField("push-dlq-partition", "3"), HeaderField("push-dlq-offset", "1234"),
            HeaderField("push-dlq-timestamp", "-1"), HeaderField("push-dlq-later", "x"),
        ]
        let letter = try DeadLetter(key: nil, value: [0x7B], headers: list)
        #expect(letter.key == nil && letter.value == [0x7B] && letter.headers == [HeaderField("apns-topic", "t")])
        #expect(letter.reason == "not-json" && letter.detail == nil && letter.place == "apns.requests/3/1234")
        #expect(letter.timestampMs == -1 && letter.truncatedBytes == nil)
        let truncated = try DeadLetter(key: [1], value: nil, headers: list + [HeaderField("push-dlq-truncated", "9")])
        let cut = try DeadLetter(
            key: [1], value: [2], headers: list + [HeaderField("push-dlq-key-truncated", "900000")])
        #expect(cut.truncatedKeyBytes == 900_000 && truncated.truncatedKeyBytes == nil)
        #expect(truncated.truncatedBytes == 9 && truncated.value == nil && truncated.key == [1])
        for place in 5...8 {
            var damaged = list
            damaged.remove(at: place)
            let error = #expect(throws: RecordError.self) { try DeadLetter(key: nil, value: nil, headers: damaged) }
            #expect(error?.description == "\(list[place].name) is missing")
        }
        let error = #expect(throws: RecordError.self) {
            try DeadLetter(key: nil, value: nil, headers: list + [HeaderField("push-dlq-offset", "x")])
        }
        #expect(error?.description == "push-dlq-offset: \"x\" is not an integer in range")
    }
}

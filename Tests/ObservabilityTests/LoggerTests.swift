import Glibc
import Observability
import Synchronization
import TestSupport
import Testing

/// A clock that moves only when a test advances it.
private final class TestClock: Sendable {
    private let seconds = Mutex(0)

    func advance(seconds: Int) { self.seconds.withLock { $0 += seconds } }

    var now: (monotonicNs: Int64, wallMs: Int64) {
        let seconds = seconds.withLock { Int64($0) }
        return (seconds * 1_000_000_000, 1_769_860_800_007 + seconds * 1_000)
    }
}

private struct Recorder {
    let sink = MemorySink()
    let clock = TestClock()
    let logger: Logger

    init(_ levels: LevelTable = LevelTable(), _ format: LineFormat = .text) {
        let clock = clock
        logger = Logger(levels: levels, format: format, sink: sink.write) { clock.now }
    }
}

@Suite struct LoggerTests {
    @Test(
        arguments: [
            ([:], "", ""),
            (["n": 5], " n=5", ",\"n\":5"),
            (["n": .count(UInt64.max)], " n=9223372036854775807", ",\"n\":9223372036854775807"),
            (["a": true, "b": false], " a=true b=false", ",\"a\":true,\"b\":false"),
            (["host": "localhost:443"], " host=localhost:443", ",\"host\":\"localhost:443\""),
            (["text": "two words"], " text=\"two words\"", ",\"text\":\"two words\""),
            (["text": ""], " text=\"\"", ",\"text\":\"\""),
            (["text": "a=b"], " text=\"a=b\"", ",\"text\":\"a=b\""),
            (
                ["text": "q\"b\\s/\n\r\t\u{1}\u{7F}\u{9B}é"], #" text="q\"b\\s/\n\r\t\u0001\u007f\u009bé""#,
                #","text":"q\"b\\s/\n\r\t\u0001\u007f\u009bé""#
            ),
        ] as [(Fields, String, String)])
    func `Fields are written as text and as JSON`(fields: Fields, text: String, json: String) {
        let asText = Recorder()
        asText.logger.info(.kafka, "partitions assigned", fields)
        #expect(asText.sink.lines == ["2026-01-31T12:00:00.007Z info kafka: partitions assigned" + text])
        let asJSON = Recorder(LevelTable(), .json)
        asJSON.logger.info(.kafka, "partitions assigned", fields)
        #expect(
            asJSON.sink.lines == [
                "{\"time\":\"2026-01-31T12:00:00.007Z\",\"level\":\"info\",\"part\":\"kafka\","
                    + "\"event\":\"partitions_assigned\",\"message\":\"partitions assigned\"\(json)}"
            ])
    }

    @Test func `Long values are cut at a character`() {
        let recorder = Recorder()
        recorder.logger.info(.worker, "x", ["text": .text(String(repeating: "é", count: 600))])
        #expect(
            recorder.sink.lines == [
                "2026-01-31T12:00:00.007Z info worker: x text=\"\(String(repeating: "é", count: 500))…\""
            ])
    }

    @Test func `Each part has its own level`() {
        let recorder = Recorder(LevelTable(.notice, parts: [.kafka: .trace, .apns: .critical]))
        for part in Part.allCases {
            for level in Level.allCases { recorder.logger.log(level, part, "x") }
        }
        func written(_ part: Part) -> Int { recorder.sink.lines.count { $0.contains(" \(part.rawValue): ") } }
        // Warning, error and critical of one message count as one event.
        #expect(written(.kafka) == 5)
        #expect(written(.apns) == 1)
        #expect(written(.worker) == 2)
        recorder.logger.setLevels(LevelTable(.trace))
        #expect(recorder.logger.writes(.trace, of: .apns))
        recorder.logger.setLevels(LevelTable(.critical))
        #expect(!recorder.logger.writes(.error, of: .kafka))
        #expect(recorder.logger.writes(.critical, of: .kafka))
    }

    @Test func `The fields of a line that is not written are not evaluated`() {
        let recorder = Recorder()
        var made = 0
        func value() -> Int64 {
            made += 1
            return 1
        }
        recorder.logger.log(.debug, .kafka, "x", ["n": .integer(value())])
        #expect(made == 0)
        recorder.logger.info(.kafka, "x", ["n": .integer(value())])
        #expect(made == 1)
    }

    @Test func `Repeated lines within ten seconds are counted and not written`() {
        let recorder = Recorder()
        func fail(_ host: String) {
            recorder.logger.warning(.apns, "cannot connect", about: host, ["host": .text(host)])
        }
        for _ in 1...5 { fail("a") }
        fail("b")
        recorder.logger.error(.apns, "another message", about: "a")
        let first = recorder.sink.lines.map { $0.dropFirst("2026-01-31T12:00:00.007Z ".count) }
        #expect(
            first == [
                "warning apns: cannot connect host=a", "warning apns: cannot connect host=b",
                "error apns: another message",
            ])
        recorder.clock.advance(seconds: 9)
        fail("a")
        #expect(recorder.sink.lines.count == 3)
        recorder.clock.advance(seconds: 1)
        fail("a")
        fail("b")
        #expect(
            recorder.sink.lines.dropFirst(3) == [
                "2026-01-31T12:00:10.007Z warning apns: cannot connect host=a repeated=5"
                    + " repeated_first=2026-01-31T12:00:00.007Z repeated_last=2026-01-31T12:00:09.007Z",
                "2026-01-31T12:00:10.007Z warning apns: cannot connect host=b",
            ])
    }

    @Test func `Sums of suppressed lines are added up, other numbers are not`() {
        let recorder = Recorder()
        func lose(_ count: Int) {
            recorder.logger.warning(.kafka, "lost", ["records": .sum(count), "last": .count(count)])
        }
        for count in [5, 3, 2] { lose(count) }
        recorder.clock.advance(seconds: 10)
        lose(4)
        lose(7)
        recorder.logger.writeLeftOut(all: true)
        let numbers = recorder.sink.lines.map { $0.split(separator: " ").dropFirst(4).prefix(2).joined(separator: " ") }
        #expect(numbers == ["records=5 last=5", "records=9 last=4", "records=7 last=7"])
    }

    @Test(
        arguments: [
            ("cannot connect; trying again", "cannot_connect_trying_again"), ("SIGHUP: the end", "sighup_the_end"),
        ]
            as [(StaticString, String)])
    func `The event is the message as one word`(message: StaticString, event: String) {
        let recorder = Recorder(LevelTable(), .json)
        recorder.logger.info(.worker, message)
        #expect(recorder.sink.lines.first?.contains(#""event":"\#(event)""#) == true)
    }

    @Test func `Repeated info lines are suppressed only if they have a subject`() {
        let recorder = Recorder()
        for _ in 1...3 { recorder.logger.info(.kafka, "partition assigned", ["n": 1]) }
        for _ in 1...3 { recorder.logger.info(.kafka, "librdkafka", about: "CONNECT", ["n": 1]) }
        #expect(recorder.sink.lines.count == 4)
    }

    @Test func `A suppressed line without a successor is written after ten seconds`() {
        let recorder = Recorder()
        for n in 1...3 { recorder.logger.warning(.apns, "lost", ["n": .count(n)]) }
        recorder.logger.writeLeftOut()
        #expect(recorder.sink.lines.count == 1)
        recorder.clock.advance(seconds: 10)
        recorder.logger.writeLeftOut()
        recorder.logger.writeLeftOut()
        recorder.clock.advance(seconds: 5)
        recorder.logger.warning(.apns, "lost", ["n": 4])
        recorder.clock.advance(seconds: 5)
        recorder.logger.writeLeftOut(all: true)
        recorder.logger.writeLeftOut(all: true)
        #expect(
            recorder.sink.lines == [
                "2026-01-31T12:00:00.007Z warning apns: lost n=1",
                "2026-01-31T12:00:10.007Z warning apns: lost n=3 repeated=2"
                    + " repeated_first=2026-01-31T12:00:00.007Z repeated_last=2026-01-31T12:00:00.007Z",
                "2026-01-31T12:00:20.007Z warning apns: lost n=4 repeated=1"
                    + " repeated_first=2026-01-31T12:00:15.007Z repeated_last=2026-01-31T12:00:15.007Z",
            ])
    }

    @Test func `Reminders are always written, other lines once in ten seconds`() {
        let recorder = Recorder()
        for n in 1...2 {
            recorder.logger.remind(.worker, "degraded", ["n": .count(n)])
            recorder.logger.warning(.apns, "lost", about: "a", ["n": .count(n)])
        }
        recorder.clock.advance(seconds: 10)
        recorder.logger.writeLeftOut()
        #expect(
            recorder.sink.lines == [
                "2026-01-31T12:00:00.007Z warning worker: degraded n=1",
                "2026-01-31T12:00:00.007Z warning apns: lost n=1",
                "2026-01-31T12:00:00.007Z warning worker: degraded n=2",
                "2026-01-31T12:00:10.007Z warning apns: lost n=2 repeated=1"
                    + " repeated_first=2026-01-31T12:00:00.007Z repeated_last=2026-01-31T12:00:00.007Z",
            ])
    }

    @Test func `A flood of subjects is bounded`() {
        let recorder = Recorder()
        for n in 1...100_000 { recorder.logger.warning(.apns, "lost", about: "\(n)") }
        #expect(recorder.sink.lines.count == 501)
        recorder.clock.advance(seconds: 10)
        recorder.logger.warning(.apns, "lost", about: "new")
        #expect(recorder.sink.lines.count == 502)
    }

    private struct FullPipe {
        let reading: Int32
        let writing: Int32

        init() {
            var ends: [Int32] = [0, 0]
            pipe(&ends)
            (reading, writing) = (ends[0], ends[1])
            for end in ends { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
            let page = [UInt8](repeating: UInt8(ascii: "x"), count: 4_096)
            while write(writing, page, page.count) > 0 {}
        }

        /// Reads up to `limit` bytes from the pipe.
        func take(_ limit: Int = 1 << 20) -> String {
            var bytes = [UInt8](repeating: 0, count: limit)
            var count = 0
            while count < limit {
                let more = bytes.withUnsafeMutableBytes { read(reading, $0.baseAddress! + count, limit - count) }
                guard more > 0 else { break }
                count += more
            }
            return String(decoding: bytes[..<count], as: UTF8.self)
        }

        func close() {
            Glibc.close(reading)
            Glibc.close(writing)
        }
    }

    /// A wait of 100 ms for each line would take 100 s.
    @Test(.timeLimit(.minutes(1))) func `A full pipe does not delay the logger`() {
        let pipe = FullPipe()
        let logger = Logger(sink: DescriptorSink(pipe.writing).write) { (0, 1_000) }
        let before = Logger.linesLost
        for n in 0..<1_000 { logger.info(.worker, "x", ["n": .count(n)]) }
        #expect(Logger.linesLost >= before + 1_000)
        #expect(!pipe.take().contains("info"))
        logger.info(.worker, "read again")
        logger.info(.worker, "and again")
        #expect(
            pipe.take() == """
                1970-01-01T00:00:01.000Z warning worker: log lines lost lines=1000 \
                since=1970-01-01T00:00:01.000Z
                1970-01-01T00:00:01.000Z info worker: read again
                1970-01-01T00:00:01.000Z info worker: and again

                """)
        pipe.close()
    }

    @Test func `Lost lines are reported even if no other line follows`() {
        let pipe = FullPipe()
        let logger = Logger(sink: DescriptorSink(pipe.writing).write) { (0, 1_000) }
        logger.info(.worker, "x")
        logger.writeLeftOut()
        _ = pipe.take()
        logger.writeLeftOut()
        logger.writeLeftOut()
        #expect(pipe.take().split(separator: "\n").map { $0.contains("lines=1 ") } == [true])
        pipe.close()
    }

    @Test func `A line that was cut is separated from the next line`() {
        let pipe = FullPipe()
        _ = pipe.take(4_096)
        let sink = DescriptorSink(pipe.writing)
        #expect(!sink.write([UInt8](repeating: UInt8(ascii: "y"), count: 6_000) + [UInt8(ascii: "\n")]))
        _ = pipe.take()
        #expect(sink.write(Array("next\n".utf8)) && sink.write(Array("last\n".utf8)))
        #expect(pipe.take() == "\nnext\nlast\n")
        pipe.close()
    }

    @Test(
        arguments: [
            (-1, "1969-12-31T23:59:59.999Z"), (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (-1_000, "1969-12-31T23:59:59.000Z"), (-1_001, "1969-12-31T23:59:58.999Z"),
            (.max, "292278994-08-17T07:12:55.807Z"), (.min, "-292275055-05-16T16:47:04.192Z"),
        ] as [(Int64, String)])
    func `A timestamp is RFC 3339 in UTC`(wallMs: Int64, expected: String) {
        #expect(Timestamp(wallMs: wallMs).text == expected)
    }
}

@Suite struct NamesOnceTests {
    @Test(arguments: [
        ("kafka: kafka: no broker answers", "kafka: no broker answers"),
        ("topic t: t: denied", "topic t: denied"),
        ("app shop: app shop: refused", "app shop: refused"),
        ("proxy 127.0.0.1:1: 127.0.0.1:1: Connection refused", "proxy 127.0.0.1:1: Connection refused"),
        (
            "localhost:1 could not be reached in time: localhost:1: 127.0.0.1:1: Connection refused",
            "localhost:1 could not be reached in time: 127.0.0.1:1: Connection refused"
        ),
        (
            "cannot connect to [::1]:443: [::1]:443: Connection refused",
            "cannot connect to [::1]:443: Connection refused"
        ),
        ("a: b: a: b: c", "a: b: c"),
        // The cause is never removed, nor a word that only resembles a name.
        ("t: t", "t: t"), ("topic ab: b: denied", "topic ab: b: denied"),
        ("app shop: shop.example:443: refused", "app shop: shop.example:443: refused"),
        ("two  spaces:  stay: here", "two  spaces:  stay: here"), ("a:b:a:b", "a:b:a:b"), ("", ""), (": : x", ": : x"),
    ])
    func `A message contains each name once`(message: String, expected: String) {
        #expect(namesOnce(message) == expected)
    }
}

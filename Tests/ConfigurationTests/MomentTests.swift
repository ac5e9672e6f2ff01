import Testing

@testable import Configuration

/// Times and rates of a command line.
@Suite struct MomentTests {
    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("2026-01-31T12:00:00Z", 1_769_860_800_000),
            ("2026-01-31t12:00:00.5z", 1_769_860_800_500), ("2026-01-31 12:00:00.123456Z", 1_769_860_800_123),
            ("2026-01-31T13:00:00+01:00", 1_769_860_800_000), ("2026-01-31T06:30:00-05:30", 1_769_860_800_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000), ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] as [(String, Int64)])
    func `Times are parsed according to RFC 3339`(text: String, ms: Int64) {
        #expect(Moment(text) == .at(ms))
        #expect(Moment(text)?.ms(nowMs: 5) == ms)
    }

    @Test func `A duration means a moment that long before now`() {
        #expect(Moment("15m") == .ago(.seconds(900)) && Moment("0") == .ago(.zero))
        #expect(Moment("2h")?.ms(nowMs: 10_000_000) == 2_800_000)
        #expect(Moment("2h")?.ms(nowMs: 5) == 0)
    }

    @Test(arguments: [
        "", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z", "2026-01-31T12:00:60Z", "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00Z ", "1969-12-31T23:59:59Z", "2026-1-31T12:00:00Z", "٢٠٢٦-01-31T12:00:00Z", "15",
    ])
    func `An invalid time is refused`(text: String) {
        #expect(Moment(text) == nil)
        let error = #expect(throws: UsageError.self) { try OptionValue.moment(text) }
        #expect(error?.description.contains("such as 2026-01-31T12:00:00Z, or a duration before now") == true)
    }

    @Test func `A rate is a number per second`() throws {
        #expect(try OptionValue.rate("1/s") == 1)
        #expect(try OptionValue.rate("1000000/s") == 1_000_000)
        for text in ["", "/s", "0/s", "1", "1/m", "-1/s", "1.5/s", "1000001/s", " 1/s"] {
            let error = #expect(throws: UsageError.self) { try OptionValue.rate(text) }
            #expect(error?.description.contains("from 1/s to 1000000/s") == true)
        }
    }

    @Test func `A topic name follows Kafka's rule`() throws {
        #expect(try OptionValue.topicName("apns.requests-2_b") == "apns.requests-2_b")
        for text in ["", ".", "..", "a b", "a/b", String(repeating: "a", count: 250)] {
            #expect(throws: UsageError.self) { try OptionValue.topicName(text) }
        }
    }
}

@Suite struct QuantityTests {
    @Test func `A duration of more than a hundred years is invalid, because nanoseconds would overflow`() {
        #expect(Quantity.duration("878400h") == .seconds(878_400 * 3_600))
        for text in [
            "878401h", "52704060m", "3162240001s", "3162240000001ms", "9223372036854775807ms", "9223372036854775807h",
            "99999999999999999999s",
        ] {
            #expect(Quantity.duration(text) == nil, "\(text)")
        }
    }

    @Test func `A size that overflows is invalid`() {
        #expect(Quantity.size("8589934591GiB") == 8_589_934_591 << 30)
        #expect(Quantity.size("8589934592GiB") == nil)
        #expect(Quantity.size("9223372036854775807KiB") == nil)
    }
}

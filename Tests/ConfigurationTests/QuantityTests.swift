import Testing

@testable import Configuration

@Suite("Durations and sizes")
struct QuantityTests {
    @Test("A duration of more than a hundred years is none, however it is written: nanoseconds would overflow")
    func longestDuration() {
        #expect(Quantity.duration("878400h") == .seconds(878_400 * 3_600))
        for text in ["878401h", "52704060m", "3162240001s", "3162240000001ms", "9223372036854775807ms"] {
            #expect(Quantity.duration(text) == nil, "\(text)")
        }
    }

    @Test("A size of more bytes than a number can say is none")
    func largestSize() {
        #expect(Quantity.size("8589934591GiB") == 8_589_934_591 << 30)
        #expect(Quantity.size("8589934592GiB") == nil)
        #expect(Quantity.size("9223372036854775807KiB") == nil)
    }
}

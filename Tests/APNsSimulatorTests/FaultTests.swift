@testable import APNsSimulator
import Bytes
import PushRecords
import Testing

struct FaultTests {
    /// The fault that a token requests if it consists of `prefix` and zeros, and how often.
    func entry(_ prefix: String, digits: Int = 64) -> (fault: Fault, times: UInt8)? {
        TokenTable.entry(for: lent(Array(tokenBytes(prefix).prefix(digits / 2))))
    }

    @Test func `Every reason of Apple's documentation has a code that begins with its status`() {
        var reasons: Set<ReasonCode> = []
        for case (let code, .answer(let answer), _) in TokenTable.lines {
            reasons.insert(answer.reason)
            #expect(code.description.hasPrefix("c") || code.description.hasPrefix("\(answer.status)"))
        }
        #expect(reasons.isSuperset(of: (1...32).map { ReasonCode(rawValue: $0)! }))
        #expect(Set(TokenTable.lines.map(\.code.description)).count == TokenTable.lines.count)
    }

    @Test(arguments: ReasonCode.allCases.compactMap { $0.text?.description })
    func `Every reason can be sent with a GOAWAY`(reason: String) throws {
        for name in ["goaway:\(reason)", "goaway-now:\(reason)"] where name != "goaway:Shutdown" {
            #expect(try #require(Fault(name: name)).name == name)
        }
    }

    @Test(arguments: [
        ("fa174100", "ExpiredToken", 0), ("FA174101", "Unregistered", 0), ("fa1750313", "Shutdown", 3),
        ("fa17c009", "Service Unavailable", 0), ("fa17f001f", "no-answer", 15), ("fa17f011", "goaway-shutdown", 0),
        ("fa17d150", "late-1500ms", 0), ("fa17d200", "late-2s", 0), ("fa17d0011", "late-10ms", 1),
        ("fa17d000", "late-0", 0), ("fa178008", "goaway:IdleTimeout", 0), ("fa177031", "goaway-now:Shutdown", 0),
        ("fa171007", "streams-7", 0), ("fa171000f", "streams-0", 15), ("fa17e418", "status-418", 0),
        ("fa17b503", "empty-503", 0),
    ])
    func `A device token requests the same fault as the fault's name`(prefix: String, name: String, times: Int) throws {
        let fault = try #require(Fault(name: name))
        let entry = try #require(self.entry(prefix))
        #expect(fault.name == name && entry.fault == fault && entry.times == UInt8(times))
    }

    @Test(arguments: [
        "00000000", "fa164100", "fa179999", "fa17e399", "fa17e60a", "fa17da00", "fb174100", "da174100", "fa17a005",
        "fa1710a0", "fa178fff", "fa17c00a",
    ])
    func `A token without a code of the table requests no fault`(prefix: String) {
        #expect(entry(prefix) == nil)
        #expect(entry("fa174101", digits: 6) == nil && entry("fa174101", digits: 8) != nil)
    }

    @Test func `The help names every code and fault`() {
        let text = Simulator.helpText
        for line in TokenTable.lines { #expect(text.contains("fa17\(line.code)")) }
        for code in UInt8(1)...32 { #expect(text.contains(ReasonCode(rawValue: code)!.text!.description)) }
        for name in Fault.named.map(\.name) + GatewayFaults.all.map(\.name) { #expect(text.contains("  \(name) ")) }
        for family in FaultFamily.all { #expect(text.contains("  \(family.start)\(family.rest) ")) }
        #expect(text.contains("fa170NNN  ") && text.split(separator: "\n").allSatisfy { $0.count <= 120 })
    }

    @Test(arguments: [
        "", "late-", "late-5", "late-20ms..80ms", "late-~0", "status-200", "status-600", "status--1", "status-41x",
        "empty-", "streams-1000", "streams-", "streams-+1", "goaway:", "goaway:Nonsense",
        "goaway-now:", "none", "other", "blackhole:Shutdown",
    ])
    func `An invalid fault name is refused`(name: String) { #expect(Fault(name: name) == nil) }

    @Test func `The order of answers is reversed within a time span`() {
        var reversal = AnswerReversal()
        let span = AnswerReversal.spanNs
        let arrivals = [0, 0, 5, span - 1, span, span + 1, span + 2, 10 * span] as [Int64]
        let due = arrivals.map { $0 + reversal.delayNs(nowNs: $0) }
        #expect(Array(due[0..<5]) == Array(due[0..<5].sorted().reversed()))
        #expect(due[4] > arrivals[4], "The last answer of a span must be due after its request")
        #expect(due[5] > due[0] && due[6] < due[5], "A later request must begin a new span")
        #expect(due[7] == 12 * span - 1)
    }

    @Test func `The timestamp of a 410 is derived from the token`() {
        #expect(
            unregisteredAtMs(token: lent(tokenBytes("fa174101", 0xF1_2345_6789))) == 1_600_000_000_000 + 0x1_2345_6789)
        #expect(unregisteredAtMs(token: lent([0xAB])) == 1_600_000_000_000 + 0xAB)
    }

    @Test(arguments: [
        ("0", Latency.zero), ("50ms", .fixed(ns: 50_000_000)), ("2s", .fixed(ns: 2_000_000_000)),
        ("20ms..80ms", .uniform(fromNs: 20_000_000, toNs: 80_000_000)), ("~5ms", .exponential(meanNs: 5_000_000)),
        ("250us", .fixed(ns: 250_000)),
    ])
    func `A latency is parsed and formatted`(text: String, latency: Latency) {
        #expect(Latency(text: text) == latency)
        #expect(latency.text == text)
    }

    @Test(arguments: ["", "5", "ms", "-1ms", "80ms..20ms", "~", "~0", "1d", "1.5s", "99999999999s", "5 ms"])
    func `An invalid latency is refused`(text: String) { #expect(Latency(text: text) == nil) }

    @Test func `Random latencies are reproducible with a seed and have the configured mean`() {
        func sum(_ latency: Latency, seed: UInt64) -> Int64 {
            var random = SplitMix64(seed: seed)
            return (0..<10_000).reduce(0) { sum, _ in sum + latency.nextNs(using: &random) }
        }
        let exponential = Latency.exponential(meanNs: 1_000_000)
        #expect(sum(exponential, seed: 7) == sum(exponential, seed: 7))
        #expect(sum(exponential, seed: 7) != sum(exponential, seed: 8))
        #expect(abs(sum(exponential, seed: 7) / 10_000 - 1_000_000) < 50_000)
        let uniform = Latency.uniform(fromNs: 1_000_000, toNs: 3_000_000)
        #expect(abs(sum(uniform, seed: 7) / 10_000 - 2_000_000) < 50_000)
    }

    @Test(arguments: ["goaway@10000", "cut-after@5s", "ServiceUnavailable@100", "no-answer@250ms"])
    func `A fault rule is parsed and formatted`(text: String) throws { #expect(try FaultRule(text: text).text == text) }

    @Test(arguments: [
        ("goaway", "write FAULT@COUNT"), ("nonsense@5", "there is no fault 'nonsense'"), ("goaway@0", "'0' is neither"),
        ("goaway@x", "'x' is neither"), ("goaway@1us", "'1us' is neither"), ("goaway@-5", "'-5' is neither"),
    ])
    func `The error of an invalid fault rule quotes the rule`(text: String, words: String) {
        let error = #expect(throws: SimulatorError.self) { try FaultRule(text: text) }
        #expect(error?.description.contains(words) == true)
        #expect(error?.description.contains("'\(text)'") == true)
    }

    @Test func `A rule with a count of N applies to every Nth request`() throws {
        var schedule = FaultSchedule(
            rules: [try FaultRule(text: "no-answer@3"), try FaultRule(text: "goaway@4")], nowNs: 0)
        let names = (0..<12).map { _ in schedule.forRequest()?.name ?? "-" }
        #expect(
            names == [
                "-", "-", "no-answer", "goaway", "-", "no-answer", "-", "goaway", "no-answer", "-", "-",
                "no-answer",
            ])
        #expect(schedule.nextDueNs == .max)
    }

    @Test func `A rule with an interval applies to all connections or to the next request`() throws {
        var schedule = FaultSchedule(
            rules: [try FaultRule(text: "goaway@2s"), try FaultRule(text: "no-answer@3s")], nowNs: 0)
        #expect(schedule.nextDueNs == 2_000_000_000)
        #expect(schedule.fire(nowNs: 1_999_999_999) == [])
        #expect(schedule.fire(nowNs: 2_000_000_000) == [.goAway(.graceful())])
        #expect(schedule.forRequest() == nil)
        #expect(schedule.fire(nowNs: 3_000_000_000) == [])
        #expect(schedule.forRequest() == .noAnswer)
        #expect(schedule.forRequest() == nil)
        #expect(schedule.fire(nowNs: 60_000_000_000) == [.goAway(.graceful())], "A pause must cause only one fault")
    }
}

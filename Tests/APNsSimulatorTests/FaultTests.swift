@testable import APNsSimulator
import Bytes
import PushRecords
import Testing

struct FaultTests {
    func entry(_ prefix: String) -> TokenTable.Entry? {
        TokenTable.entry(for: lent(prefix + String(repeating: "0", count: 64 - prefix.count)))
    }

    @Test func `Every reason of Apple s page has a code`() {
        let codes = TokenTable.lines.compactMap { line -> ReasonCode? in
            if case .answer(let answer) = line.fault { answer.reason } else { nil }
        }
        #expect(Set(codes).isSuperset(of: (1...32).map { ReasonCode(rawValue: $0)! }))
        #expect(Set(TokenTable.lines.map(\.code.description)).count == TokenTable.lines.count)
    }

    /// "The JSON data might also be included in a GOAWAY frame" stands on both of Apple's pages, of no reason in
    /// particular.
    @Test(arguments: ReasonCode.allCases.compactMap { $0.text?.description })
    func `Every reason can be that of a go away`(reason: String) throws {
        for start in ["goaway", "goaway-now"] {
            let fault = try #require(Fault(name: "\(start):\(reason)"))
            let code = try #require(TokenTable.code(of: fault))
            #expect(entry("fa17" + code)?.fault == fault)
        }
    }

    @Test(arguments: TokenTable.lines.map(\.code.description))
    func `The code begins with its status`(code: String) {
        guard case .answer(let answer)? = entry("fa17" + code)?.fault, code.first != "c" else { return }
        #expect(code.hasPrefix("\(answer.status)"))
    }

    @Test(arguments: [
        ("fa174100", Fault.answer(Answer(.expiredToken)), 0), ("FA174101", .answer(Answer(.unregistered)), 0),
        ("fa1750313", .answer(Answer(.shutdown)), 3), ("fa17f001f", .noAnswer, 15),
        ("fa17d150", .late(.fixed(ns: 1_500_000_000)), 0), ("fa17d0011", .late(.fixed(ns: 10_000_000)), 1),
        ("fa17a005", .late(.exponential(meanNs: 50_000_000)), 0), ("fa17d000", .late(.none), 0),
        ("fa171007", .streams(7), 0), ("fa171000f", .streams(0), 15),
        ("fa1780081", .goAway(.reason(.idleTimeout)), 1), ("fa179030", .goAway(.reason(.serviceUnavailable)), 0),
        ("fa176030", .goAway(.immediateReason(.badCertificate)), 0),
        ("fa177031", .goAway(.immediateReason(.shutdown)), 0),
        ("fa17e418", .answer(Answer(status: 418, reason: .other, body: .unknownReason)), 0),
        ("fa17b503", .answer(Answer(status: 503, reason: .other, body: .missing)), 0),
    ])
    func `Tokens ask for faults`(prefix: String, fault: Fault, times: Int) {
        #expect(entry(prefix) == TokenTable.Entry(fault: fault, times: UInt8(times)))
    }

    @Test(arguments: [
        "00000000", "fa164100", "fa179999", "fa17e399", "fa17e60a", "fa17da00", "fb174100", "da174100", "fa17a000",
        "fa1710a0", "fa17800f", "fa176999", "fa17c00a", "fa17200a", "fa173999",
    ])
    func `Other tokens ask for nothing`(prefix: String) { #expect(entry(prefix) == nil) }

    @Test func `A token too short for a code asks for nothing`() {
        #expect(TokenTable.entry(for: lent("fa1741")) == nil)
        #expect(TokenTable.entry(for: lent("fa174101")) == .init(fault: .answer(Answer(.unregistered)), times: 0))
    }

    @Test func `The help names every code and fault`() {
        let text = Simulator.helpText
        for line in TokenTable.lines { #expect(text.contains("fa17\(line.code)")) }
        for code in UInt8(1)...32 { #expect(text.contains(ReasonCode(rawValue: code)!.text!.description)) }
        for named in NamedFault.all { #expect(text.contains("  \(named.name) ")) }
        for family in FaultFamily.all {
            #expect(text.contains("  \(family.start)\(family.rest) ") && text.contains("  \(family.tokens.prefix)  "))
        }
        #expect(text.split(separator: "\n").allSatisfy { $0.count <= 120 })
    }

    /// Names, and what device tokens ask for them: `FaultWaysTests` has them all.
    @Test(arguments: [
        ("late-1500ms", "d150"), ("late-9990ms", "d999"), ("late-2s", "d200"), ("late-~9990ms", "a999"),
        ("goaway:Forbidden", "8033"), ("goaway-now:BadCollapseId", "6000"),
        ("goaway:TopicMismatch", "2008"), ("goaway-now:Service Unavailable", "3009"),
        ("goaway:BadEnvironmentKeyInToken", "8038"), ("streams-1", "1001"),
        ("status-500", "e500"), ("empty-410", "b410"), ("goaway-shutdown", "f011"), ("Service Unavailable", "c009"),
    ])
    func `Names and tokens say the same`(name: String, code: String) throws {
        let fault = try #require(Fault(name: name))
        #expect(fault.name == name)
        #expect(TokenTable.code(of: fault) == code)
        #expect(entry("fa17" + code)?.fault == fault)
    }

    /// Finer than a token can say, and a second name.
    @Test func `Some faults have only a name`() throws {
        #expect(Fault(name: "late-155ms")?.name == "late-155ms")
        #expect(TokenTable.code(of: try #require(Fault(name: "late-155ms"))) == nil)
        #expect(Fault(name: "goaway:Shutdown") == Fault(name: "goaway-shutdown"))
    }

    @Test(arguments: [
        "", "late-", "late-5", "late-20ms..80ms", "late-~0", "status-200", "status-600", "status--1", "status-41x",
        "empty-", "streams-1000", "streams-", "streams-+1", "goaway:", "goaway:Nonsense",
        "goaway-now:", "none", "other", "blackhole:Shutdown",
    ])
    func `Other names are none`(name: String) { #expect(Fault(name: name) == nil) }

    @Test func `Answers are turned around within a span`() {
        var reversal = AnswerReversal()
        let span = AnswerReversal.spanNs
        let arrivals = [0, 0, 5, span - 1, span, span + 1, span + 2, 10 * span] as [Int64]
        let due = arrivals.map { $0 + reversal.delayNs(nowNs: $0) }
        #expect(Array(due[0..<5]) == Array(due[0..<5].sorted().reversed()))
        #expect(due[4] > arrivals[4], "later than whatever may come in front of it")
        #expect(due[5] > due[0] && due[6] < due[5], "the next span")
        #expect(due[7] == 12 * span - 1)
    }

    @Test func `Unregistered times can be computed by anyone`() {
        #expect(
            unregisteredAtMs(token: lent("fa174101" + String(repeating: "0", count: 47) + "123456789"))
                == 1_600_000_000_000 + 0x1_2345_6789)
        #expect(unregisteredAtMs(token: lent("ab")) == 1_600_000_000_000 + 0xab)
    }

    @Test(arguments: [
        ("0", Latency.none), ("50ms", .fixed(ns: 50_000_000)), ("2s", .fixed(ns: 2_000_000_000)),
        ("20ms..80ms", .uniform(fromNs: 20_000_000, toNs: 80_000_000)), ("~5ms", .exponential(meanNs: 5_000_000)),
        ("250us", .fixed(ns: 250_000)),
    ])
    func `Latencies`(text: String, latency: Latency) {
        #expect(Latency(text: text) == latency)
        #expect(latency.text == text)
    }

    @Test(arguments: ["", "5", "ms", "-1ms", "80ms..20ms", "~", "~0", "1d", "1.5s", "99999999999s", "5 ms"])
    func `No latencies`(text: String) { #expect(Latency(text: text) == nil) }

    @Test func `Latency is seeded and has its mean`() {
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
    func `Rules round trip`(text: String) throws { #expect(try FaultRule(text: text).text == text) }

    @Test(arguments: [
        ("goaway", "write FAULT@COUNT"), ("nonsense@5", "there is no fault 'nonsense'"), ("goaway@0", "'0' is neither"),
        ("goaway@x", "'x' is neither"), ("goaway@1us", "'1us' is neither"), ("goaway@-5", "'-5' is neither"),
    ])
    func `Wrong rules say what is wrong`(text: String, words: String) {
        let error = #expect(throws: SimulatorError.self) { try FaultRule(text: text) }
        #expect(error?.description.contains(words) == true)
        #expect(error?.description.contains("'\(text)'") == true)
    }

    @Test func `Rules by count come round`() throws {
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

    @Test func `Rules by time befall connections or the next request`() throws {
        var schedule = FaultSchedule(
            rules: [try FaultRule(text: "goaway@2s"), try FaultRule(text: "no-answer@3s")], nowNs: 0)
        #expect(schedule.nextDueNs == 2_000_000_000)
        #expect(schedule.fire(nowNs: 1_999_999_999) == [])
        #expect(schedule.fire(nowNs: 2_000_000_000) == [.goAway(.graceful)])
        #expect(schedule.forRequest() == nil)
        #expect(schedule.fire(nowNs: 3_000_000_000) == [])
        #expect(schedule.forRequest() == .noAnswer)
        #expect(schedule.forRequest() == nil)
        #expect(schedule.fire(nowNs: 60_000_000_000) == [.goAway(.graceful)], "no burst after a pause")
    }
}

import HTTP2
import Testing

@testable import APNs

/// Traces of a host with a limit of nine seconds: `SECOND EVENT asked > STATE`. `asked` means that a request is in
/// flight, `idle` that none is.
@Suite struct AnswerWatchTests {
    static let traces = PlanTrace.table(
        """
        a host is unanswering after nine seconds of silence, until its first answer
            99 idle; 100 asked > until 109; 108 asked > until 109; 109 asked > unanswering
            110 answered asked > until 119
        neither idle time nor single lost requests that are not retried count as silence
            0 idle; 7 idle; 3000 idle; 4000 asked > until 4009; 4001 idle; 4007 asked > until 4016; 4008 idle
            4014 asked > until 4023; 4015 idle
        answers that are eight seconds late restart the limit, with one request at a time
            0 asked > until 9; 8 asked > until 9; 8 answered idle; 9 asked > until 18; 17 answered idle
        answers that are eight seconds late restart the limit, with requests always in flight
            0 asked > until 9; 8 asked > until 9; 8 answered asked > until 17; 16 answered asked > until 25
        retries without an answer count as one wait, which is forgotten when no request follows
            0 asked > until 9; 2 idle; 3 asked > until 9; 5 idle; 6 asked > until 9; 8 idle; 9 asked > unanswering
            10 idle > unanswering, until 15; 15 idle
        three ended streams count as silence while their notifications wait for a retry
            100 asked > until 109; 100 cancel cancel asked > until 109; 101 idle
            103 internalError idle > until 109, internalError; 104 cancel idle > until 109, internalError
            109 idle > unanswering, until 1301, internalError; 1000 idle > unanswering, until 1301, internalError
            1001 asked > unanswering, internalError; 1001 answered idle
        ended streams are forgotten after twenty minutes without a request
            0 asked > until 9; 0 cancel cancel cancel asked > until 9, cancel; 1 idle > until 9, cancel
            9 idle > unanswering, until 1201, cancel; 1201 idle
        ended streams between answers do not count as silence
            0 refusedStream refusedStream refusedStream asked > until 9, refusedStream; 7 answered asked > until 16
            8 refusedStream refusedStream refusedStream asked > until 16, refusedStream; 15 answered asked > until 24
        """)

    private static let codes: [Substring: ErrorCode] = [
        "cancel": .cancel, "internalError": .internalError, "refusedStream": .refusedStream,
    ]
    private static let secondNs: Int64 = 1_000_000_000

    @Test(arguments: traces)
    func `Every trace of events leads to its expected states`(trace: PlanTrace) throws {
        var watch = AnswerWatch(limitNs: 9 * Self.secondNs)
        try trace.check { words in
            let nowNs = try #require(Int64(words[0])) * Self.secondNs
            for word in words[1...].dropLast() {
                if let code = Self.codes[word] { watch.ended(code, nowNs: nowNs) } else { watch.answered() }
            }
            watch.update(isAsked: words.last == "asked", nowNs: nowNs)
            var known = watch.isUnanswering ? ["unanswering"] : []
            if watch.deadlineNs != .max { known.append("until \(watch.deadlineNs / Self.secondNs)") }
            return known + Self.codes.filter { $0.value == watch.endCode }.map { String($0.key) }
        }
    }
}

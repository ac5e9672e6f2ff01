import JSON

/// How long a request takes through a worker that is not busy.
struct LatencyFigures {
    static let p50Budget = 5.0
    static let p99Budget = 20.0

    var perSecond: Int
    var count: Int
    /// From the record's timestamp to the request's arrival in the server, decrypted, in milliseconds with
    /// microseconds: a little more than "to the request written".
    var arrival: Percentiles
    var arrivalMaximum: Double
    /// From the record's timestamp to the producer's acknowledgement: the broker's share, and the way back.
    var acknowledged: Percentiles
    /// From the record's timestamp to `sent_at_ms`: when the connection's thread took the request to write it, in whole
    /// milliseconds.
    var sent: Percentiles
    /// From `sent_at_ms` to `settled_at_ms`.
    var answer: Percentiles?
    /// CPU of the worker for each.
    var cpuUs: Double

    var findings: [Finding] {
        [
            Finding("latency_p50_ms", "latency at \(perSecond)/s, p50 ms", arrival.p50, .atMost, Self.p50Budget),
            Finding("latency_p99_ms", "latency at \(perSecond)/s, p99 ms", arrival.p99, .atMost, Self.p99Budget),
        ]
    }

    var lines: [String] {
        var table = TextTable(["\(perSecond)/s, \(count) requests, ms", "p50", "p99", "p99.9", ""])
        func add(_ name: String, _ times: Percentiles, _ digits: Int, _ note: String) {
            table.add(
                [name, fixed(times.p50, digits), fixed(times.p99, digits), fixed(times.p999, digits), note])
        }
        add(
            "record's timestamp to arrival in the server", arrival, 2,
            "longest \(fixed(arrivalMaximum, 2)); p50 \(findings[0].verdict), p99 \(findings[1].verdict)")
        add("record's timestamp to acknowledged by Kafka", acknowledged, 2, "by the producer")
        add("record's timestamp to sent_at_ms", sent, 0, "whole ms, from the results")
        if let answer { add("sent_at_ms to settled_at_ms", answer, 0, "whole ms, from the results") }
        return table.lines + ["CPU us each at this pace: \(fixed(cpuUs, 1))"]
    }

    func write(to json: inout JSONWriter) {
        json.member("per_second", perSecond)
        json.member("count", count)
        json.member("arrival_ms") { arrival.write(to: &$0) }
        json.member("arrival_longest_ms", arrivalMaximum)
        json.member("acknowledged_ms") { acknowledged.write(to: &$0) }
        json.member("sent_ms") { sent.write(to: &$0) }
        if let answer { json.member("answer_ms") { answer.write(to: &$0) } }
        json.member("cpu_us", cpuUs)
    }
}

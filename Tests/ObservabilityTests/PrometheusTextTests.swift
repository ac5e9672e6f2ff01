import Testing

@testable import Observability

struct PrometheusTextTests {
    @Test func `Counters and gauges are written with help and type`() {
        var text = PrometheusText()
        text.family("sends_total", .counter, "Requests sent.")
        text.sample(12, ["app": "shop", "outcome": "accepted"])
        text.sample(0, ["app": "news", "outcome": "accepted"])
        text.family("up", .gauge, "Whether it is up.")
        text.sample(0.25)
        #expect(
            text.text == """
                # HELP sends_total Requests sent.
                # TYPE sends_total counter
                sends_total{app="shop",outcome="accepted"} 12
                sends_total{app="news",outcome="accepted"} 0
                # HELP up Whether it is up.
                # TYPE up gauge
                up 0.25

                """)
    }

    @Test func `OpenMetrics names a counter's family without its suffix, and marks the end`() {
        var text = PrometheusText(.openMetrics)
        text.family("sends_total", .counter, "Requests sent.")
        text.sample(12)
        #expect(text.text == "# HELP sends Requests sent.\n# TYPE sends counter\nsends_total 12\n# EOF\n")
    }

    @Test func `Labels are escaped`() {
        var text = PrometheusText()
        text.family("a", .gauge, "A.")
        text.sample(1, ["name": "back\\slash \"quote\" line\nfeed"])
        #expect(text.text.hasSuffix("a{name=\"back\\\\slash \\\"quote\\\" line\\nfeed\"} 1\n"))
    }

    /// Each bucket includes the buckets below it, and the last bucket counts all values.
    @Test func `A histogram is written as cumulative buckets, sum and count`() {
        var text = PrometheusText()
        text.family("seconds", .histogram, "Time.")
        let some: [(bound: Double, count: Int)] = [(0.001, 2), (0.5, 0), (1, 3)]
        text.histogram(["app": "shop"], buckets: some, above: 4, sum: 12.5)
        let none: [(bound: Double, count: Int)] = []
        text.histogram(buckets: none, above: 0, sum: 0)
        #expect(
            text.text == """
                # HELP seconds Time.
                # TYPE seconds histogram
                seconds_bucket{app="shop",le="0.001"} 2
                seconds_bucket{app="shop",le="0.5"} 2
                seconds_bucket{app="shop",le="1"} 5
                seconds_bucket{app="shop",le="+Inf"} 9
                seconds_sum{app="shop"} 12.5
                seconds_count{app="shop"} 9
                seconds_bucket{le="+Inf"} 0
                seconds_sum 0
                seconds_count 0

                """)
    }

    @Test(arguments: [(3, "3"), (0.1, "0.1"), (1e20, "1e+20")])
    func `A number is written in the Prometheus format`(value: Double, written: String) {
        var text = PrometheusText()
        text.family("x", .gauge, "X.")
        text.sample(value)
        #expect(text.text.hasSuffix("x \(written)\n"))
    }
}

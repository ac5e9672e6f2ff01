/// A request that a broker took and did not answer in time. librdkafka connects to it anew, and tries again.
package struct RequestTimeout: Hashable, Sendable {
    /// As librdkafka names it: `host:port/node` or `GroupCoordinator`.
    package let broker: String
    /// As the protocol names it, for example `Fetch`.
    package let request: String
    package let afterMs: Int64

    package init(broker: String, request: String, afterMs: Int64) {
        self.broker = broker
        self.request = request
        self.afterMs = afterMs
    }

    /// Reads `BROKER: Timed out NAMERequest in flight (after MSms, …` of librdkafka's log (rdkafka_broker.c,
    /// rd_kafka_broker_bufq_timeout_scan: a notice of the facility REQTMOUT); `nil`: it says something else.
    package init?(inLog text: String, facility: String) {
        guard facility == "REQTMOUT", let start = text.firstRange(of: ": Timed out "),
            let middle = text.firstRange(of: "Request in flight (after "), start.upperBound < middle.lowerBound,
            let afterMs = Int64(text[middle.upperBound...].prefix { $0.isASCII && $0.isNumber })
        else { return nil }
        // The thread's name stands before the broker's: `[thrd:host:9092/1]: host:9092/1`.
        let words = text[..<start.lowerBound].split(separator: " ")
        guard let broker = words.last, !broker.isEmpty else { return nil }
        self.init(broker: String(broker), request: String(text[start.upperBound..<middle.lowerBound]), afterMs: afterMs)
    }
}

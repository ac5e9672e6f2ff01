import CRdkafka

/// What a broker said about a quota that this client exceeds (`throttle_time_ms`, KIP-219): for so long it takes no
/// further request on the connection. librdkafka tells it of Produce and Fetch.
package struct QuotaDelay: Sendable, Hashable {
    /// As librdkafka names it: `host:port/node`.
    package let broker: String
    /// Of the last answer, in milliseconds; 0: the quota is not exceeded any more.
    package private(set) var lastMs: Int64
    /// Of all answers that were not told before, in milliseconds.
    package private(set) var sumMs: Int64

    package init(broker: String, lastMs: Int64, sumMs: Int64) {
        self.broker = broker
        self.lastMs = lastMs
        self.sumMs = sumMs
    }

    fileprivate mutating func add(_ milliseconds: Int64) {
        lastMs = milliseconds
        sumMs += milliseconds
    }
}

/// Where librdkafka leaves the delays of a client's brokers, as a callback: it has no event for them. It is called from
/// the client's own polls only, so on the thread that polls.
final class QuotaDelays {
    private var delays: [QuotaDelay] = []

    /// Those of each broker since the last call.
    func take() -> [QuotaDelay] {
        guard !delays.isEmpty else { return [] }
        defer { delays = [] }
        return delays
    }

    private func note(_ broker: String, milliseconds: Int64) {
        if let index = delays.firstIndex(where: { $0.broker == broker }) {
            delays[index].add(milliseconds)
        } else {
            delays.append(QuotaDelay(broker: broker, lastMs: milliseconds, sumMs: milliseconds))
        }
    }

    /// Has the client that is made of `configuration` tell this object, which must live as long as the client is
    /// polled.
    func listen(in configuration: OpaquePointer) {
        unsafe rd_kafka_conf_set_opaque(configuration, Unmanaged.passUnretained(self).toOpaque())
        unsafe rd_kafka_conf_set_throttle_cb(configuration) { _, name, node, milliseconds, opaque in
            guard let name = unsafe name, let opaque = unsafe opaque else { return }
            unsafe Unmanaged<QuotaDelays>.fromOpaque(opaque).takeUnretainedValue()
                .note("\(String(cString: name))/\(node)", milliseconds: Int64(milliseconds))
        }
    }
}

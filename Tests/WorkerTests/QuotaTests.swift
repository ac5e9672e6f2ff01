import Configuration
import Kafka
import Testing

@testable import Worker

/// What is said of brokers that hold this client back.
struct QuotaTests {
    private static let second: Int64 = 1_000_000_000
    private static let broker = "127.0.0.1:9092/1"
    private let cluster = ClusterSettings(bootstrapServers: "127.0.0.1:9092")

    private func delay(_ lastMs: Int64, sumMs: Int64? = nil, broker: String = broker) -> QuotaDelay {
        QuotaDelay(broker: broker, lastMs: lastMs, sumMs: sumMs ?? lastMs)
    }

    @Test func `A broker is named with what it holds back, for how long, and which quota to raise`() throws {
        var quotas = Quotas()
        #expect(quotas.faults(of: cluster, nowNs: 0).isEmpty)
        quotas.note(delay(15_250), of: .produce, nowNs: Self.second)
        quotas.note(delay(2_000, sumMs: 4_000), of: .produce, nowNs: 17 * Self.second)
        let fault = try #require(quotas.faults(of: cluster, nowNs: 17 * Self.second).first)
        #expect(fault.subject == "broker \(Self.broker)" && fault.kind == .throttled)
        #expect(fault.text.hasSuffix("a quota: Produce for 2.0 s at its last answer, 19.2 s in all"), "\(fault.text)")
        #expect(
            fault.advice.contains(
                "raise the quota producer_byte_rate, or request_percentage, of client id apns-worker or of its user"))
        quotas.note(delay(300), of: .fetch, nowNs: 18 * Self.second)
        let both = try #require(quotas.faults(of: cluster, nowNs: 18 * Self.second).first)
        #expect(both.text.hasSuffix("19.2 s in all; Fetch for 0.3 s at its last answer, 0.3 s in all"))
        #expect(both.advice.contains("producer_byte_rate and consumer_byte_rate"))
        #expect(quotas.totalsMs == [.produce: 19_250, .fetch: 300])
    }

    @Test func `It is over when no answer was held back for a while after the last delay`() {
        var quotas = Quotas()
        func isNamed(_ seconds: Int64) -> Bool { !quotas.faults(of: cluster, nowNs: seconds * Self.second).isEmpty }
        quotas.note(delay(0), of: .produce, nowNs: 0)
        #expect(!isNamed(0), "it was held back by no answer that is known")
        quotas.note(delay(30_000), of: .produce, nowNs: 0)
        #expect(isNamed(39) && !isNamed(40), "30 s that it said, and 10 s more")
        quotas.note(delay(30_000), of: .produce, nowNs: 100 * Self.second)
        quotas.note(delay(0), of: .produce, nowNs: 105 * Self.second)
        #expect(isNamed(114) && !isNamed(115), "an answer without a delay ends it")
        // One that came after the delay's end says nothing new.
        quotas.note(delay(1_000), of: .produce, nowNs: 200 * Self.second)
        quotas.note(delay(0), of: .produce, nowNs: 205 * Self.second)
        #expect(isNamed(210) && !isNamed(211))
        // What was over is counted from nothing.
        quotas.note(delay(500), of: .produce, nowNs: 300 * Self.second)
        #expect(quotas.faults(of: cluster, nowNs: 300 * Self.second).first?.text.hasSuffix("0.5 s in all") == true)
        // Held back and let go between two looks: it was so all the same.
        var short = Quotas()
        short.note(delay(0, sumMs: 700), of: .fetch, nowNs: 0)
        #expect(short.faults(of: cluster, nowNs: 0).first?.text.contains("Fetch for 0.7 s at") == true)
    }

    @Test func `The quota's owner is whom the configuration makes of the client`() throws {
        var settings = cluster
        settings.properties = try KafkaProperties(
            common: [
                KafkaProperty("security.protocol", "SASL_SSL"), KafkaProperty("sasl.username", "pushes"),
                KafkaProperty("client.id", "push"),
            ], producer: [KafkaProperty("client.id", "push-out")])
        var quotas = Quotas()
        quotas.note(delay(100), of: .produce, nowNs: 0)
        quotas.note(delay(100), of: .fetch, nowNs: 0)
        let advice = try #require(quotas.faults(of: settings, nowNs: 0).first?.advice)
        #expect(
            advice.contains("of client id push-out or of user pushes, and of client id push or of user pushes"),
            "\(advice)")
    }

    @Test func `Many brokers take a bounded room`() {
        var quotas = Quotas()
        for number in 0..<Quotas.limit + 10 { quotas.note(delay(1_000, broker: "b:\(number)"), of: .produce, nowNs: 0) }
        #expect(quotas.faults(of: cluster, nowNs: 0).count == Quotas.limit)
    }
}

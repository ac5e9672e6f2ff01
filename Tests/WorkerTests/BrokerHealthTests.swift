import Kafka
import Testing

@testable import Worker

/// The health of brokers according to librdkafka's statistics. Unused members may have any value.
struct BrokerHealthTests {
    @Test func `The states of brokers and group are read from librdkafka's statistics`() {
        let text = #"""
            {"name":"a","msg_cnt":7,"msg_size":900,"brokers":{"h:1/1":{"name":"h:1/1","source":"learned","state":"UP",
            "waitresp_cnt":2,"rxidle":5200999,"connects":3,"rtt":{"min":9,"avg":1500,"cnt":4},
            "toppars":{"a-0":{"topic":"a"}}},"c":{"name":"GroupCoordinator","source":"logical","state":"UPDATE",
            "rxidle":-1,"rtt":{"avg":0,"cnt":0}},"i":{"name":":0/internal","source":"internal","state":"UP"}},
            "topics":{"a":[1]},"cgrp":{"state":"up","stateage":7,"join_state":"wait-join"}}
            """#
        let statistics = ClientStatistics(text)
        #expect(
            statistics?.brokers == [
                ClientStatistics.Broker(
                    name: "h:1/1", isConnected: true, inFlight: 2, silentMs: 5_200, attempts: 3, roundTripUs: 1_500),
                ClientStatistics.Broker(name: "GroupCoordinator", isCoordinator: true, isConnected: true),
            ])
        #expect(statistics?.queue == ClientStatistics.Queue(records: 7, bytes: 900))
        #expect(statistics?.hasCoordinator == true && statistics?.isSteady == false)
    }

    @Test(arguments: ["not JSON", #"{"brokers":[]}"#, #"{"brokers":{"a":{"waitresp_cnt":"2"}}}"#])
    func `Text that is not valid statistics is rejected`(text: String) { #expect(ClientStatistics(text) == nil) }

    @Test func `Statistics without brokers change nothing`() {
        var health = BrokerHealth()
        health.take(#"{"name":"a"}"#)
        #expect(health == BrokerHealth())
    }

    private static func broker(
        _ number: Int = 1, _ isConnected: Bool = true, inFlight: Int64 = 0, silentMs: Int64 = 100, attempts: Int64 = 1
    ) -> ClientStatistics.Broker {
        ClientStatistics.Broker(
            name: "h:\(number)/\(number)", isConnected: isConnected, inFlight: inFlight, silentMs: silentMs,
            attempts: attempts)
    }

    @Test func `An idle broker that was just sent a request is not silent, and a silent one stays so`() {
        var health = BrokerHealth()
        var asked = Self.broker(inFlight: 1, silentMs: 10_000)
        asked.unsentMs = 20
        health.take(ClientStatistics(brokers: [asked]))
        #expect(health.silences.isEmpty)
        asked.unsentMs = 4_020
        health.take(ClientStatistics(brokers: [asked]))
        #expect(health.silences == [asked.name: .unanswered])
        asked.unsentMs = 20
        health.take(ClientStatistics(brokers: [asked]))
        #expect(health.silences == [asked.name: .unanswered])
    }

    private static func coordinator(inFlight: Int64 = 0, silentMs: Int64 = 100) -> ClientStatistics.Broker {
        ClientStatistics.Broker(
            name: "GroupCoordinator", isCoordinator: true, isConnected: true, inFlight: inFlight, silentMs: silentMs)
    }

    @Test(
        arguments: [
            ([broker()], true, .answered),
            ([broker(inFlight: 1, silentMs: 3_999)], true, .answered),
            ([broker(inFlight: 1, silentMs: 4_000)], true, .silent),
            // A broker without a request in flight owes no answer.
            ([broker(silentMs: 60_000)], true, .unknown),
            ([broker(inFlight: 1, silentMs: 9_000), broker(2)], true, .answered),
            ([broker(1, false), broker(2, false)], true, .disconnected),
            ([], true, .disconnected),
            // A coordinator that waits for the other members of the group is not silent.
            ([broker(silentMs: 9_000), coordinator(inFlight: 1, silentMs: 9_000)], false, .unknown),
            ([broker(silentMs: 9_000), coordinator(inFlight: 1, silentMs: 9_000)], true, .silent),
            ([broker(silentMs: 9_000), coordinator()], true, .answered),
        ] as [([ClientStatistics.Broker], Bool, BrokerHealth.Reachability)])
    func `A broker is silent when it has owed an answer for four seconds`(
        brokers: [ClientStatistics.Broker], isSteady: Bool, reach: BrokerHealth.Reachability
    ) {
        var health = BrokerHealth()
        health.take(ClientStatistics(brokers: brokers, isSteady: isSteady))
        #expect(health.reach == reach)
    }

    private func problems(_ clients: [BrokerHealth], _ reasons: [String] = ["refused"]) -> [String] {
        let errors = reasons.map { KafkaError(.transport, $0) }
        return BrokerHealth.problems(clients, bootstrapServers: "h:1", errors: errors).map {
            "\($0.subject): \($0.text)"
        }
    }

    @Test func `One silent broker of several is reported until it answers, also while librdkafka reconnects`() {
        var health = BrokerHealth()
        func take(_ one: ClientStatistics.Broker) -> [String] {
            health.take(ClientStatistics(brokers: [one, Self.broker(2)]))
            return problems([health])
        }
        let silent = ["broker h:1/1: the broker accepts requests but does not answer"]
        #expect(take(Self.broker()) == [])
        #expect(take(Self.broker(inFlight: 1, silentMs: 5_000)) == silent)
        #expect(take(Self.broker(1, false, silentMs: -1)) == silent)
        #expect(take(Self.broker(attempts: 2)) == [])
        // librdkafka does not connect to a broker that it does not need.
        #expect(take(Self.broker(1, false, attempts: 2)) == [])
        #expect(take(Self.broker(1, false, attempts: 3)) == [])
        #expect(take(Self.broker(1, false, attempts: 4)) == ["broker h:1/1: no connection to the broker can be made"])
        #expect(take(Self.broker(attempts: 5)) == [])
    }

    @Test func `A broker to which librdkafka no longer connects is not reported after 15 reports`() {
        var health = BrokerHealth()
        func take(_ one: ClientStatistics.Broker) -> Int {
            health.take(ClientStatistics(brokers: [one, Self.broker(2)]))
            return health.silences.count
        }
        #expect(take(Self.broker(inFlight: 1, silentMs: 5_000)) == 1)
        #expect((2...3).map { take(Self.broker(1, false, attempts: $0)) } == [1, 1])
        #expect((1...15).map { _ in take(Self.broker(1, false, attempts: 3)) } == [Int](repeating: 1, count: 14) + [0])
        #expect(take(Self.broker(1, false, attempts: 4)) == 1, "librdkafka needs the broker again")
    }

    /// The broker is healthy, but librdkafka closes each connection at the large response.
    @Test func `A response above receive.message.max.bytes is reported instead of its broker`() throws {
        var health = BrokerHealth()
        for attempts in [1, 4] as [Int64] {
            health.take(ClientStatistics(brokers: [Self.broker(1, attempts == 1, attempts: attempts), Self.broker(2)]))
        }
        let text =
            "Receive failed: Invalid response size 3000218 (0..1500000): increase receive.message.max.bytes "
            + "(after 1ms in state UP)"
        let found = try #require(problems([health], ["refused", "h:1/1: \(text)"]).first)
        #expect(found.hasPrefix("broker h:1/1: a record or a batch is too large to be read: "))
        #expect(found.hasSuffix(text))
        #expect(problems([health], ["h:1/2: \(text)"]) == ["broker h:1/1: no connection to the broker can be made"])
    }

    @Test func `A problem is reported when no broker answers any client`() {
        func client(_ brokers: ClientStatistics.Broker...) -> BrokerHealth {
            var health = BrokerHealth()
            health.take(ClientStatistics(brokers: brokers))
            return health
        }
        let away = client(Self.broker(1, false))
        let (idle, silent) = (client(Self.broker(silentMs: 60_000)), client(Self.broker(inFlight: 1, silentMs: 9_000)))
        #expect(problems([away, idle, BrokerHealth()]) == ["kafka: no broker of h:1 answers: refused"])
        #expect(problems([silent, away]) == ["kafka: no broker of h:1 answers"])
        #expect(problems([away, client(Self.broker())]) == [])
        #expect(problems([idle, BrokerHealth()]) == [])
    }

    @Test func `A coordinator is silent when it is missing twice in a row, or does not answer`() {
        var health = BrokerHealth()
        func take(_ hasCoordinator: Bool, _ coordinator: ClientStatistics.Broker) -> Bool {
            health.take(ClientStatistics(brokers: [Self.broker(), coordinator], hasCoordinator: hasCoordinator))
            return health.isCoordinatorSilent
        }
        #expect(!take(true, Self.coordinator()))
        #expect(!take(false, Self.coordinator()), "the coordinator may be moving to another broker")
        #expect(take(false, Self.coordinator()))
        #expect(!take(true, Self.coordinator()))
        #expect(take(true, Self.coordinator(inFlight: 1, silentMs: 5_000)))
    }
}

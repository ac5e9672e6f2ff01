import Foundation
@testable import Kafka
import TestSupport
import Testing

@Suite(.waiting) struct ProducerTests {
    @Test func `A failed record can be produced again from its delivery report`() throws {
        let cluster = try Cluster(.mock)
        let (writer, topic) = try Writer.connected(cluster)
        cluster.mock?.fail(0, with: [.topicAuthorizationFailed])
        let header = Seen.Header(name: "outcome", value: Array("accepted".utf8))
        #expect(
            writer.produce(
                to: topic, key: Array("key".utf8), value: Array("value".utf8), headers: [header], tag: 42) == .none)
        try writer.run("a failure") { !writer.undelivered.isEmpty }
        let failed = try #require(writer.undelivered.first)
        #expect(writer.reports[42] == [.topicAuthorizationFailed])
        #expect(failed.tag == 42)
        #expect(failed.key == Array("key".utf8))
        #expect(writer.producer.topicNames[failed.topic.index] == cluster.topic)
        // `produce` fails until librdkafka has refreshed the topic's metadata. The record survives repeated attempts.
        while writer.producer.produce(failed) != .none {
            writer.producer.serve(timeoutMs: 50, report: writer.report, event: writer.event)
        }
        try writer.run("success") { writer.reports[42]?.count == 2 }
        #expect(writer.reports[42] == [.topicAuthorizationFailed, .none])

        let member = try cluster.member()
        try member.run("the record") { !member.records.isEmpty }
        #expect(member.records.map(\.text) == ["value"])
        #expect(member.records[0].key == Array("key".utf8))
        #expect(member.records[0].headers == [header])
    }

    @Test func `Each record has exactly its headers`() throws {
        let cluster = try Cluster(.mock, partitions: 1)
        let (writer, topic) = try Writer.connected(cluster)
        func header(_ name: String, _ value: String?) -> Seen.Header {
            Seen.Header(name: name, value: value.map { Array($0.utf8) })
        }
        let all = [
            [header("outcome", "accepted")], [], [header("outcome", "rejected"), header("reason", "x")],
            [header("outcome", "")], [header("outcome", nil)],
        ]
        for (tag, headers) in all.enumerated() {
            #expect(writer.produce(to: topic, key: nil, value: [1], headers: headers, tag: UInt64(tag)) == .none)
            try writer.run("the report") { writer.reports[UInt64(tag)] == [.none] }
        }
        let member = try cluster.member()
        try member.run("the records") { member.records.count == all.count }
        #expect(member.records.map(\.headers) == all)
    }

    @Test(arguments: Place.available)
    func `After a fatal error a rebuilt producer writes every record that was not delivered`(_ place: Place) throws {
        let cluster = try Cluster(place)
        let (writer, topic) = try Writer.connected(cluster)
        #expect(try writer.producer.topic(cluster.topic) == topic)
        let count: UInt64 = 5_000
        for tag in 0..<count {
            #expect(writer.produce(to: topic, key: nil, value: Array("\(tag)".utf8), tag: tag) == .none)
        }
        writer.producer.failFatally(KafkaCode(rawValue: 45))
        try writer.run("the fatal error") { writer.fatal != nil }
        #expect(writer.produce(to: topic, key: nil, value: [1], tag: 99) == .fatal)
        try writer.producer.rebuild()
        #expect(
            writer.producer.outstanding + writer.reports.count >= Int(count),
            "every record must be outstanding or reported")
        try writer.run("their reports") { writer.reports.count == Int(count) && writer.producer.outstanding == 0 }
        #expect(writer.fatal?.code == KafkaCode(rawValue: 45))
        for record in writer.undelivered {
            #expect(record.topic == topic && writer.producer.produce(record) == .none)
        }
        writer.flush()
        #expect(writer.reports.values.allSatisfy { $0.last == KafkaCode.none })
        let member = try cluster.member()
        try member.run("all records") { Set(member.records.map(\.text)).count == Int(count) }
    }

    @Test
    func `A dropped record may be written if it was sent without an answer, but not if it was never sent`() throws {
        let cluster = try Cluster(.mock, partitions: 2)
        let (writer, topic) = try Writer.connected(cluster)
        #expect(writer.produce(to: topic, partition: 0, key: nil, value: [1], tag: 1) == .none)
        try writer.run("the first report") { writer.reports.count == 1 }
        // The connection breaks after the request was sent, and librdkafka queues the record again for a retry.
        cluster.mock?.fail(0, with: Array(repeating: .transport, count: 50))
        #expect(writer.produce(to: topic, partition: 0, key: nil, value: [2], tag: 2) == .none)
        _ = writer.producer.flush(timeoutMs: 2_000, report: writer.report, event: writer.event)
        #expect(writer.produce(to: topic, partition: 1, key: nil, value: [3], tag: 3) == .none)
        writer.producer.failFatally(KafkaCode(rawValue: 45))
        try writer.producer.rebuild()
        try writer.run("their reports") { writer.undelivered.count == 2 }
        let marks = Dictionary(writer.undelivered.map { ($0.tag, $0.mayBeWritten) }) { first, _ in first }
        #expect(marks == [2: true, 3: false])
    }

    /// The mock broker accepts any first sequence number, like a broker that has no state of the producer.
    @Test func `A record whose write librdkafka only infers is not reported as written`() throws {
        let cluster = try Cluster(.mock, partitions: 1)
        let (writer, topic) = try Writer.connected(
            cluster, properties: [KafkaProperty("linger.ms", "0"), KafkaProperty("batch.num.messages", "1")])
        try cluster.mock?.setRoundTrip(milliseconds: 2_000)
        // NOT_ENOUGH_REPLICAS
        cluster.mock?.fail(0, with: Array(repeating: KafkaCode(rawValue: 19), count: 2))
        for tag in 0..<10 as Range<UInt64> {
            #expect(writer.produce(to: topic, key: nil, value: Array("\(tag)".utf8), tag: tag) == .none)
        }
        try writer.run("all reports") { writer.reports.count == 10 }
        #expect(writer.undelivered.map(\.tag) == [0, 1])
        #expect(writer.undelivered.allSatisfy { writer.reports[$0.tag] == [.inconsistent] && $0.mayBeWritten })
        try cluster.mock?.setRoundTrip(milliseconds: 0)
        for record in writer.undelivered { #expect(writer.producer.produce(record) == .none) }
        try writer.run("their reports") { writer.reports.values.allSatisfy { $0.last == KafkaCode.none } }
        let member = try cluster.member()
        try member.run("all records") { Set(member.records.map(\.text)).count == 10 }
        #expect(member.records.count == 10, "the first attempts of the records 0 and 1 must not be in the log")
    }

    @Test func `A producer that sends singly has one request in flight, whatever the user sets`() throws {
        let settings = ProducerSettings(
            cluster: ClusterSettings(
                bootstrapServers: "127.0.0.1:1",
                properties: try KafkaProperties(producer: [KafkaProperty("max.in.flight", "5")])), sendsSingly: true)
        #expect(settings.all.last == KafkaProperty("max.in.flight.requests.per.connection", "1"))
        #expect(throws: Never.self) { try Producer(settings) }
    }

    @Test func `A counter in a header stops at its limit`() throws {
        let cluster = try Cluster(.mock)
        let (writer, topic) = try Writer.connected(cluster)
        cluster.mock?.fail(0, with: [.topicAuthorizationFailed])
        let headers = ["1", "7", "99", "9223372036854775807", "-9223372036854775808", "x"].enumerated()
            .map { Seen.Header(name: "n\($0)", value: Array($1.utf8)) }
        #expect(writer.produce(to: topic, key: nil, value: [1], headers: headers, tag: 1) == .none)
        try writer.run("a failure") { !writer.undelivered.isEmpty }
        let record = writer.undelivered[0]
        for name in headers.map(\.name) + ["none"] { record.raiseHeader(name, limit: 8) }
        var seen: [String: String] = [:]
        record.withParts { _, _, headers in
            for header in headers {
                seen[String(decoding: header.name, as: UTF8.self)] = String(decoding: header.value, as: UTF8.self)
            }
        }
        #expect(seen == ["n0": "2", "n1": "8", "n2": "8", "n3": "8", "n4": "-9223372036854775807", "n5": "x"])
    }
}

@Suite(.waiting, .needsBroker) struct ProducerOnBrokerTests {
    @Test func `A record that the broker rejects as too large can be produced again without its value`() throws {
        let cluster = try Cluster(.broker, configuration: [KafkaProperty("max.message.bytes", "2000")])
        let (writer, topic) = try Writer.connected(cluster, properties: [KafkaProperty("compression.type", "none")])
        let header = Seen.Header(name: "push-dlq-reason", value: Array("x".utf8))
        var number = Seen.Header(name: "push-retry-in-doubt", value: Array("9".utf8))
        let value = [UInt8](repeating: 120, count: 5000)
        #expect(writer.produce(to: topic, key: [1], value: value, headers: [number, header], tag: 1) == .none)
        try writer.run("the refusal") { !writer.undelivered.isEmpty }
        let refused = try #require(writer.undelivered.first)
        #expect(!refused.mayBeWritten)
        refused.raiseHeader(number.name, limit: 100)
        refused.raiseHeader(header.name, limit: 100)
        refused.raiseHeader("none", limit: 100)
        number.value = Array("10".utf8)
        let smaller = refused.withParts { key, _, headers in
            UndeliveredRecord(
                copying: key, UnsafeRawBufferPointer(start: nil, count: 0), headers: headers, to: refused.topic,
                tag: refused.tag)
        }
        #expect(writer.producer.produce(smaller) == .none)
        try writer.run("the report") { writer.reports[1]?.count == 2 }
        #expect(writer.reports[1] == [.messageTooLarge, .none])
        // The rejected record does not block the next one.
        #expect(writer.produce(to: topic, key: [1], value: [1], tag: 2) == .none)
        try writer.run("the next report") { writer.reports[2] == [.none] }
        let member = try cluster.member()
        try member.run("both records") { member.records.count == 2 }
        #expect(member.records[0].value == nil)
        #expect(member.records[0].headers == [header, number])
    }

    @Test func `A record whose timestamp the broker rejects can be produced again with a new timestamp`() throws {
        let cluster = try Cluster(.broker, configuration: [KafkaProperty("message.timestamp.after.max.ms", "3600000")])
        let (writer, topic) = try Writer.connected(cluster)
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        #expect(writer.produce(to: topic, key: nil, value: [1], timestampMs: now + 7_200_000, tag: 1) == .none)
        try writer.run("the refusal") { !writer.undelivered.isEmpty }
        #expect(writer.producer.produce(writer.undelivered[0], timestampMs: now) == .none)
        try writer.run("the report") { writer.reports[1]?.count == 2 }
        #expect(writer.reports[1] == [.invalidTimestamp, .none])
    }
}

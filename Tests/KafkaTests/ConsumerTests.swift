import Foundation
import TestSupport
import Testing

@testable import Kafka

/// Scenarios that run on librdkafka's mock cluster and, if available, on a real broker.
@Suite(.waiting) struct ConsumerTests {
    @Test(arguments: Place.available)
    func `A consumer receives records exactly as they were produced`(_ place: Place) throws {
        let cluster = try Cluster(place, partitions: 2)
        let (writer, topic) = try Writer.connected(cluster)
        let member = try cluster.member()
        try member.run("an assignment") { member.queues.count == 2 }

        let odd: [(key: [UInt8]?, value: [UInt8]?, headers: [Seen.Header])] = [
            (nil, nil, []),
            ([], [], [Seen.Header(name: "null", value: nil), Seen.Header(name: "empty", value: [])]),
            (Array("key".utf8), Array("value".utf8), [Seen.Header(name: "", value: [1, 0, 2])]),
            ([0, 1], [0], [Seen.Header(name: "twice", value: [1]), Seen.Header(name: "twice", value: [2])]),
        ]
        for (index, record) in odd.enumerated() {
            let code = writer.produce(
                to: topic, partition: 0, key: record.key, value: record.value, headers: record.headers,
                timestampMs: 1_700_000_000_000 + Int64(index), tag: UInt64(index))
            #expect(code == .none)
        }
        let count = 2000
        for index in odd.count..<count {
            let code = writer.produce(
                to: topic, partition: 1, key: nil, value: Array("\(index)".utf8), tag: UInt64(index))
            #expect(code == .none)
        }
        try writer.run("all reports") { writer.reports.count == count }
        #expect(writer.reports.values.allSatisfy { $0 == [.none] })
        try member.run("all records") { member.records.count >= count }

        let first = member.records.filter { $0.partition == 0 }
        for (index, record) in odd.enumerated() {
            #expect(first[index].key == record.key)
            #expect(first[index].value == record.value)
            #expect(first[index].headers == record.headers)
            #expect(first[index].timestampMs == 1_700_000_000_000 + Int64(index))
        }
        let second = member.records.filter { $0.partition == 1 }
        #expect(second.map(\.text) == (odd.count..<count).map { "\($0)" })
        #expect(second.map(\.offset) == (0..<Int64(count - odd.count)).map { $0 })
        #expect(member.consumer.logEnd(of: cluster.partition(1)) ?? -1 >= Int64(count - odd.count))
        let ends = try member.consumer.offsets(
            of: [cluster.partition(1), cluster.partition(0)], fromMs: Consumer.logEnd, timeoutMs: 10_000)
        #expect(ends == [cluster.partition(1): Int64(count - odd.count), cluster.partition(0): Int64(odd.count)])
    }

    @Test(arguments: Place.available)
    func `The next group member reads back the metadata of a commit`(_ place: Place) throws {
        let cluster = try Cluster(place, partitions: 3)
        try Writer(cluster.servers).fill(cluster.topic, ["a"])
        let member = try cluster.member()
        try member.run("an assignment") { member.queues.count == 3 }
        let sizes = [0, 1, 4000]
        let entries = sizes.enumerated().map { index, size in
            CommitEntry(
                cluster.partition(Int32(index)), offset: Int64(index) * 7 + 1,
                metadata: (0..<size).map { UInt8(33 + $0 % 90) })
        }
        let reply = try member.commit(entries, tag: 77)
        #expect(reply.code == .none)
        #expect(reply.codes == Dictionary(uniqueKeysWithValues: entries.map { ($0.partition, .none) }))
        try member.close()

        let next = try cluster.member()
        next.answersAssignments = false
        try next.run("an assignment") { next.pendingAssignment != nil }
        let committed = try next.consumer.committed(entries.map(\.partition), timeoutMs: 10_000)
        for (entry, found) in zip(entries, committed) {
            #expect(found.offset == entry.offset)
            #expect(found.metadata == entry.metadata)
            #expect(found.code == .none)
        }
    }

    @Test(arguments: Place.available)
    func `An unread queue stops the fetcher, and fetching resumes once the queue is read`(_ place: Place) throws {
        let cluster = try Cluster(place)
        let count = 4000
        let body = String(repeating: "x", count: 1000)
        try Writer(cluster.servers, properties: [KafkaProperty("compression.type", "none")])
            .fill(cluster.topic, (0..<count).map { "\($0) \(body)" })
        let member = try cluster.member(.retries)
        member.readsAtMost = 0
        try member.run("an assignment") { member.queues.count == 1 }
        let queue = try #require(member.queues.values.first)
        // An unread queue signals only its first event, so the loop below polls without a wake-up.
        try member.run("the first records") { queue.count > 0 }
        var last = -1
        while last != queue.count {
            last = queue.count
            try member.turn()
            Thread.sleep(forTimeInterval: 1.2)
        }
        // The limit is 256 kB of messages plus the size of one fetch.
        #expect(queue.count < 1200, "the fetcher must stop at the queue's limit")
        #expect(queue.read(max: 0) { _ in true } == 0)
        // A record that the reader declines stays in the queue, and the next read returns it first.
        var offered: [Int64] = []
        let taken = queue.read(max: 10) { message in
            offered.append(message.offset)
            return message.offset < 4
        }
        #expect(taken == 4)
        #expect(offered == [0, 1, 2, 3, 4])
        #expect(try member.readOffsets(queue, 6) == Array(4..<10))
        member.readsAtMost = 64
        try member.run("all records") { member.records.count >= count - 4 }
        #expect(member.records.map(\.offset) == (4..<Int64(count)).map { $0 })
    }

    @Test(arguments: Place.available)
    func `An offset that is out of range is reported once, and a new assignment reads the partition`(_ place: Place)
        throws
    {
        let cluster = try Cluster(place)
        try Writer(cluster.servers).fill(cluster.topic, ["a", "b", "c"])
        // With `debug: topic`, librdkafka's log mentions offsets that are not out of range.
        let member = try cluster.member(properties: [KafkaProperty("debug", "topic")])
        try member.run("the records") { member.records.count == 3 }
        #expect(try member.commit([CommitEntry(cluster.partition(0), offset: 1000)], tag: 1).code == .none)
        try member.close()
        #expect(member.resets.isEmpty && !member.log.isEmpty)

        let next = try cluster.member()
        // The turn after the one that reads the error from the queue reports it.
        try next.run("the refusal") {
            try next.turn()
            return !next.resets.isEmpty
        }
        next.answersAssignments = false
        try next.consumer.rejoin([cluster.topic])
        try next.run("another assignment") { next.pendingAssignment != nil }
        for queue in try next.consumer.assign([(cluster.partition(0), nil)]) { next.queues[queue.partition] = queue }
        try next.run("the records from the beginning") { next.records.count == 3 }
        #expect(next.resets == [cluster.partition(0)])
        #expect(next.records.map(\.offset) == [0, 1, 2])
    }

    @Test(arguments: Place.available)
    func `A closing consumer leaves the group after it has answered its last revocation`(_ place: Place) throws {
        let cluster = try Cluster(place)
        try Writer(cluster.servers).fill(cluster.topic, ["a", "b", "c"])
        let member = try cluster.member()
        try member.run("the records") { member.records.count == 3 }
        member.answersRevocations = false
        try member.consumer.startClosing()
        try member.run("the last revocation") { member.pendingRevocation != nil }
        #expect(!member.consumer.isClosed)
        #expect(member.revocations == [false])
        let reply = try member.commit(
            [CommitEntry(cluster.partition(0), offset: 2, metadata: Array("map".utf8))], tag: 5)
        if place == .broker { #expect(reply.code == .none) }
        try member.answerRevocation()
        try member.awaitClosed()
        let next = try cluster.member()
        try next.run("an assignment") { next.queues.count == 1 }
        if place == .broker {
            try next.run("the uncommitted record") { next.records.count == 1 }
            #expect(next.records.map(\.offset) == [2])
        }
    }

    @Test func `A failed commit reports the error code of each partition`() throws {
        let cluster = try Cluster(.mock)
        let member = try cluster.member()
        try member.run("an assignment") { member.queues.count == 1 }
        cluster.mock?.fail(8, with: [.illegalGeneration])
        let reply = try member.commit([CommitEntry(cluster.partition(0), offset: 1)], tag: UInt64.max)
        #expect(reply.tag == UInt64.max)
        #expect(reply.code.isRebalance)
        #expect(Array(reply.codes.values) == [reply.code])
    }
}

@Suite(.waiting, .needsBroker) struct ConsumerOnBrokerTests {
    @Test func `The broker rejects metadata that is too large only for its own partition`() throws {
        let cluster = try Cluster(.broker, partitions: 2)
        let member = try cluster.member()
        try member.run("an assignment") { member.queues.count == 2 }
        let small = [UInt8](repeating: 97, count: 10)
        let large = [UInt8](repeating: 98, count: 4097)
        let reply = try member.commit(
            [
                CommitEntry(cluster.partition(0), offset: 5, metadata: large),
                CommitEntry(cluster.partition(1), offset: 6, metadata: small),
            ], tag: 2)
        #expect(reply.code == .offsetMetadataTooLarge)
        let codes = Dictionary(uniqueKeysWithValues: reply.codes.map { ($0.key.partition, $0.value) })
        #expect(codes[0] == .offsetMetadataTooLarge)
        let after = try member.consumer.committed([cluster.partition(0), cluster.partition(1)], timeoutMs: 10_000)
        #expect(after[0].offset == nil)
        // Partition 1 was committed, although librdkafka reports the same code for it. Committing it again is harmless.
        #expect(after[1].offset == 6)
        #expect(
            try member.commit(
                [CommitEntry(cluster.partition(0), offset: 5, metadata: [UInt8](repeating: 98, count: 4096))], tag: 3
            ).code == .none)
    }

    /// The old owner answers a revocation after one second. Until then it serves its events and commits with metadata,
    /// and the new owner finds the metadata.
    @Test(arguments: [ConsumerSettings.Assignment.eager, .cooperative])
    func `A consumer can commit until it answers a revocation, and the next owner finds the commit`(
        assignment: ConsumerSettings.Assignment
    ) throws {
        let cluster = try Cluster(.broker, partitions: 4)
        let writer = try Writer(cluster.servers)
        for partition in 0..<4 { try writer.fill(cluster.topic, partition: Int32(partition), (0..<20).map { "\($0)" }) }
        let first = try cluster.member(assignment: assignment)
        try first.run("all records") { first.queues.count == 4 && first.records.count == 80 }
        first.answersRevocations = false
        let second = try cluster.member(assignment: assignment)
        try first.run("a revocation", together: [second]) { first.pendingRevocation != nil }
        let leaving = try #require(first.pendingRevocation)
        #expect(first.revocations == [false])
        #expect(leaving.count == (assignment == .eager ? 4 : 2))

        // During a drain of one second, events are served and commits succeed, but librdkafka fetches no records.
        for partition in leaving { try writer.fill(cluster.topic, partition: partition.partition, ["late"]) }
        let drained = Date(timeIntervalSinceNow: 1)
        while Date() < drained {
            try first.turn()
            try second.turn()
            Thread.sleep(forTimeInterval: 0.02)
        }
        #expect(first.records.count == 80)
        #expect(second.queues.isEmpty)
        let reply = try first.commit(
            leaving.map { CommitEntry($0, offset: 10, metadata: Array("map of \($0.partition)".utf8)) }, tag: 9)
        #expect(reply.code == .none)
        try first.answerRevocation()
        second.answersAssignments = false
        try first.run("an assignment of the new member", together: [second]) {
            if let pending = second.pendingAssignment, pending.isEmpty { try second.answerAssignment() }
            return second.pendingAssignment != nil
        }
        let moved = try #require(second.pendingAssignment)
        #expect(moved.count == 2)
        for found in try second.consumer.committed(moved, timeoutMs: 10_000) {
            #expect(found.offset == 10)
            #expect(found.metadata == Array("map of \(found.partition.partition)".utf8))
        }
        try second.answerAssignment()
        try second.run("the uncommitted records", together: [first]) {
            second.records.count == 2 * 11 && first.queues.count == 2
        }
        #expect(second.records.allSatisfy { $0.offset >= 10 })
        first.answersRevocations = true
        try second.close()
        try first.run("all partitions again") { first.queues.count == 4 }
    }

    /// When partitions move, librdkafka drops records that were fetched but not read. They must be fetched again.
    @Test(arguments: [ConsumerSettings.Assignment.eager, .cooperative])
    func `Records that were not read before a rebalance are delivered after it`(assignment: ConsumerSettings.Assignment)
        throws
    {
        let cluster = try Cluster(.broker, partitions: 4)
        let writer = try Writer(cluster.servers)
        for partition in 0..<4 {
            try writer.fill(cluster.topic, partition: Int32(partition), (0..<200).map { "\($0)" })
        }
        let first = try cluster.member(assignment: assignment)
        first.readsAtMost = 0
        try first.run("an assignment") { first.queues.count == 4 }
        var read: [TopicPartition: Set<Int64>] = [:]
        for queue in first.queues.values { read[queue.partition] = Set(try first.readOffsets(queue, 50)) }
        for (_, offsets) in read { #expect(offsets == Set(0..<50)) }
        #expect(try first.commit(first.queues.keys.map { CommitEntry($0, offset: 50) }, tag: 1).code == .none)
        first.records = []
        let second = try cluster.member(assignment: assignment)
        second.readsAtMost = 0
        try first.run("half of the partitions at each member", together: [second]) {
            first.queues.count == 2 && second.queues.count == 2
        }
        first.readsAtMost = 16
        second.readsAtMost = 16
        try first.run("all records", together: [second]) {
            Set((first.records + second.records).map { "\($0.partition) \($0.offset)" }).count == 600
        }
        // Records of the partitions that the first member kept also arrive in order.
        for partition in first.queues.keys {
            let offsets = first.records.filter { $0.partition == partition.partition }.map(\.offset)
            #expect(offsets == (50..<200).map { $0 })
        }
    }

    @Test func `A fenced static member receives a fatal error`() throws {
        let cluster = try Cluster(.broker)
        let member = try cluster.member(instance: "worker-1")
        try member.run("an assignment") { member.queues.count == 1 }
        let usurper = try cluster.member(instance: "worker-1")
        try member.run("the fatal error", together: [usurper]) { member.fatal != nil }
        #expect(member.fatal?.code == .fencedInstance)
    }
}

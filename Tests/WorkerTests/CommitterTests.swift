import Observability
import PushRecords
import TestSupport
import Testing

@testable import Delivery
@testable import Kafka
@testable import Worker

extension Problem {
    /// Whether the problem's text ends with the name of this Kafka error.
    func names(_ code: KafkaCode) -> Bool { text.hasSuffix(": \(code.name)") }
}

/// How the committer handles replies to commits, without a broker.
struct CommitterTests {
    /// A group member that records the commits it is given.
    fileprivate final class Member {
        var partitions: [PartitionID: TopicPartition] = [:]
        var sent: [(entries: [CommitEntry], tag: UInt64)] = []
        var failure: KafkaError?

        func send(_ entries: [CommitEntry], _ tag: UInt64) throws(KafkaError) {
            if let failure { throw failure }
            sent.append((entries, tag))
        }
    }

    fileprivate struct Scene: ~Copyable {
        var machine: DeliveryMachine
        let committer: OffsetCommitter
        let member = Member()
        var now = DeliveryTime(ns: 1_000_000_000, wallMs: 1_000_000)
        private(set) var ids: [PartitionID] = []
        /// Whether the machine considers a commit of the first partition impossible.
        var isCommitImpossible: Bool { machine.ledger[ids[0].slot].commits.isImpossible }

        /// Settles and commits this offset of each partition, if any.
        init(partitions: Int, committing offset: Int64? = nil) {
            machine = DeliveryMachine(settings: MachineSettings(), apps: [])
            committer = OffsetCommitter(.requests, name: "worker", logger: Logger(sink: MemorySink().write))
            for number in 0..<Int32(partitions) {
                let id = machine.assign(
                    topic: "requests", partition: number, role: .requests(weight: 1), committedOffset: nil,
                    metadata: .nothing, logEnd: 0)
                ids.append(id)
                member.partitions[id] = TopicPartition("requests", number)
            }
            if let offset { commit(offset: offset) }
        }

        /// Settles one record of each partition.
        mutating func settle(offset: Int64) {
            for id in ids where member.partitions[id] != nil {
                let receipt = machine.receive(
                    id, offset: offset, timestampMs: now.wallMs, key: .nothing, value: .nothing,
                    headers: UnsafeBufferPointer(start: nil, count: 0), now: now)
                guard case .deadLetter(let notification, _, _) = receipt else { return }
                machine.acknowledged(notification, now: now)
            }
        }

        mutating func commit(afterMs ms: Int64 = 1_000) {
            now.ns += ms * 1_000_000
            now.wallMs += ms
            machine.advance(now: now)
            let member = member
            committer.commit(&machine, now: now, partitionOf: { member.partitions[$0] }, send: member.send)
        }

        mutating func commit(offset: Int64) {
            settle(offset: offset)
            commit()
        }

        /// Answers the last commit with a code for each partition's number.
        mutating func answer(_ codes: [Int32: KafkaCode]) throws {
            let last = try #require(member.sent.last)
            let results = last.entries.map { ($0.partition, codes[$0.partition.partition] ?? .none) }
            let code = results.first { $0.1 != .none }?.1 ?? .none
            committer.take(
                CommitReply(tag: last.tag, code: code, codes: Dictionary(uniqueKeysWithValues: results)), &machine,
                now: now)
        }

        var problems: [Problem] { committer.problems(now: now, of: Array(member.partitions.values)) }

        var sentPartitions: [[Int32]] { member.sent.map { $0.entries.map(\.partition.partition).sorted() } }
    }

    @Test func `Partitions that share an error are committed one by one, and only the one with the error waits`() throws
    {
        var scene = Scene(partitions: 3, committing: 7)
        #expect(scene.sentPartitions == [[0, 1, 2]])
        // librdkafka copies the error of the one whose topic is gone onto all.
        try scene.answer([0: .unknownTopicOrPartition, 1: .unknownTopicOrPartition, 2: .unknownTopicOrPartition])
        #expect(scene.problems.isEmpty, "a shared error is not reported for any partition")
        for _ in 0..<6 {
            scene.commit(afterMs: 20)
            guard scene.member.sent.last?.entries.count == 1, scene.sentPartitions.count > 1 else { continue }
            try scene.answer([1: .unknownTopicOrPartition])
        }
        let alone = scene.sentPartitions.dropFirst().map(\.self)
        #expect(alone.prefix(3).sorted { $0[0] < $1[0] } == [[0], [1], [2]], "\(alone)")
        let problems = scene.problems
        #expect(problems.map(\.subject) == [.partition(TopicPartition("requests", 1))])
        #expect(problems.first?.names(.unknownTopicOrPartition) == true)
        #expect(problems.first?.advice.contains("create topic requests") == true)
        // The other partitions are still committed together, without partition 1.
        scene.settle(offset: 8)
        scene.commit(afterMs: 50)
        #expect(scene.sentPartitions.last == [0, 2])
    }

    @Test func `A group without partitions has no problem with commits`() throws {
        var scene = Scene(partitions: 1, committing: 7)
        try scene.answer([0: .timedOut])
        #expect(scene.problems.map(\.subject) == [.group("worker")])
        scene.member.partitions = [:]
        #expect(scene.problems.isEmpty)
    }

    @Test func `Commit metadata that the broker finds too long is a problem until a commit is acknowledged`() throws {
        var scene = Scene(partitions: 1, committing: 7)
        try scene.answer([0: .offsetMetadataTooLarge])
        #expect(scene.problems.first?.advice.contains("offset.metadata.max.bytes") == true)
        scene.commit()
        try scene.answer([:])
        #expect(scene.problems.isEmpty)
    }

    @Test func `A commit is impossible once its topic has been unknown to the coordinator for a while`() throws {
        var scene = Scene(partitions: 1, committing: 7)
        // The coordinator may not know the topic yet.
        for _ in 0..<3 {
            try scene.answer([0: .unknownTopicOrPartition])
            #expect(scene.isCommitImpossible == false)
            scene.commit()
        }
        #expect(scene.problems.first?.advice.contains("create topic requests") == true)
        scene.now.ns += OffsetCommitter.unknownTopicNs
        try scene.answer([0: .unknownTopicOrPartition])
        #expect(scene.isCommitImpossible == true)
        // Created again: a commit that is taken leaves nothing of it.
        scene.commit()
        try scene.answer([:])
        #expect(scene.problems.isEmpty)
        scene.commit(offset: 8)
        try scene.answer([0: .unknownTopicOrPartition])
        #expect(scene.isCommitImpossible == false)
    }

    @Test func `An error of the group is reported for the group, not for its partitions`() throws {
        var scene = Scene(partitions: 2, committing: 7)
        try scene.answer([0: .groupAuthorizationFailed, 1: .groupAuthorizationFailed])
        let problems = scene.problems
        #expect(problems.map(\.subject) == [.group("worker")])
        #expect(problems.first?.advice == "grant READ on group worker")
        scene.commit()
        #expect(scene.sentPartitions == [[0, 1], [0, 1]])
        try scene.answer([:])
        #expect(scene.problems.isEmpty)
        #expect(scene.machine.counters.commitsAcknowledged == 2)
    }

    /// The lease, within which sending goes on without a commit, is 8 s.
    @Test(arguments: [KafkaCode.notCoordinator, .coordinatorLoading, .rebalanceInProgress])
    func `After a group rejected commits for a minute, each partition is committed within a second`(
        code: KafkaCode
    ) throws {
        var scene = Scene(partitions: 3)
        scene.settle(offset: 7)
        // The group rejects each commit at once for a minute.
        for _ in 0..<600 {
            let known = scene.member.sent.count
            scene.commit(afterMs: 100)
            guard scene.member.sent.count > known else { continue }
            try scene.answer([0: code, 1: code, 2: code])
        }
        #expect(scene.member.sent.count < 70, "the pauses between commits grow")
        #expect(scene.problems.isEmpty == (code == .rebalanceInProgress))
        let endNs = scene.now.ns
        while scene.machine.counters.commitsAcknowledged < 3, scene.now.ns - endNs < 20_000_000_000 {
            let known = scene.member.sent.count
            scene.commit(afterMs: 50)
            if scene.member.sent.count > known { try scene.answer([:]) }
        }
        #expect(scene.now.ns - endNs <= 1_050_000_000)
    }

    @Test func `A reply may list its partitions in any order`() throws {
        var scene = Scene(partitions: 4, committing: 7)
        let last = try #require(scene.member.sent.last)
        let codes = Dictionary(
            uniqueKeysWithValues: [2, 0, 3].map { member in
                (last.entries[member].partition, member == 0 ? KafkaCode.offsetMetadataTooLarge : .none)
            })
        // The reply does not list partition 1, so the code of the whole reply counts for it.
        scene.committer.take(
            CommitReply(tag: last.tag, code: .notCoordinator, codes: codes), &scene.machine, now: scene.now)
        #expect(scene.machine.counters.commitsAcknowledged == 2)
        scene.commit()
        #expect(scene.sentPartitions.last == [0, 1])
    }

    @Test func `A commit whose partitions were all revoked is not sent, and the next commit is sent`() throws {
        var scene = Scene(partitions: 1)
        scene.settle(offset: 7)
        let id = scene.ids[0]
        let partition = scene.member.partitions.removeValue(forKey: id)
        scene.commit()
        #expect(scene.member.sent.isEmpty, "an empty commit has no reply, so all later commits would wait")
        scene.member.partitions[id] = partition
        scene.commit()
        #expect(scene.sentPartitions == [[0]])
        #expect(scene.member.sent[0].entries[0].offset == 8)
    }

    @Test func `A revoked partition does not shift the answers of others, and is committed once it is back`() throws {
        var scene = Scene(partitions: 3)
        scene.settle(offset: 7)
        let given = scene.member.partitions.removeValue(forKey: scene.ids[1])
        scene.commit()
        #expect(scene.sentPartitions == [[0, 2]])
        try scene.answer([2: .offsetMetadataTooLarge])
        #expect(scene.machine.counters.commitsAcknowledged == 1)
        scene.member.partitions[scene.ids[1]] = given
        // A partition whose commit was rejected pauses.
        var again: Set<Int32> = []
        for _ in 0..<20 where again != [1, 2] {
            let known = scene.member.sent.count
            scene.commit()
            guard scene.member.sent.count > known else { continue }
            again.formUnion(try #require(scene.sentPartitions.last))
            try scene.answer([:])
        }
        #expect(again == [1, 2], "only partitions without an acknowledgement are committed again")
        #expect(scene.machine.counters.commitsAcknowledged == 3)
    }

    @Test func `A repeated answer to an earlier commit does not acknowledge the commit in flight`() throws {
        var scene = Scene(partitions: 1, committing: 7)
        let first = try #require(scene.member.sent.last)
        try scene.answer([:])
        scene.commit(offset: 8)
        #expect(scene.member.sent.count == 2)
        let codes = [first.entries[0].partition: KafkaCode.none]
        scene.committer.take(CommitReply(tag: first.tag, code: .none, codes: codes), &scene.machine, now: scene.now)
        #expect(scene.machine.counters.commitsAcknowledged == 1, "the second commit has no answer yet")
        scene.commit()
        #expect(scene.member.sent.count == 2, "the second commit is still in flight")
        try scene.answer([:])
        #expect(scene.machine.counters.commitsAcknowledged == 2)
    }

    @Test func `A commit that could not be sent is repeated`() throws {
        var scene = Scene(partitions: 1)
        scene.settle(offset: 7)
        scene.member.failure = KafkaError(.waitingForCoordinator)
        scene.commit()
        #expect(scene.problems.map { $0.names(.waitingForCoordinator) } == [true])
        scene.member.failure = nil
        scene.commit()
        #expect(scene.sentPartitions == [[0]])
        try scene.answer([:])
        #expect(scene.problems.isEmpty)
    }

    @Test func `A coordinator that does not answer a commit is reported after some seconds`() throws {
        var scene = Scene(partitions: 1, committing: 7)
        #expect(scene.problems.isEmpty)
        scene.now.ns += 6_000_000_000
        let problems = scene.problems
        #expect(problems.map(\.subject) == [.group("worker")])
        #expect(problems.first?.names(.timedOut) == true)
        // After an error there is one problem, which names the error.
        try scene.answer([0: .groupAuthorizationFailed])
        scene.commit()
        #expect(scene.member.sent.count == 2)
        scene.now.ns += 6_000_000_000
        #expect(scene.problems.map { $0.names(.groupAuthorizationFailed) } == [true])
        try scene.answer([:])
        #expect(scene.problems.isEmpty)
    }

    @Test func `A commit's error is reported for the committed partition, not for a revoked one`() throws {
        var scene = Scene(partitions: 2)
        scene.settle(offset: 7)
        scene.member.partitions[scene.ids[1]] = nil
        scene.commit()
        #expect(scene.sentPartitions == [[0]])
        try scene.answer([0: .topicAuthorizationFailed])
        let problems = scene.problems
        #expect(problems.map(\.subject) == [.partition(TopicPartition("requests", 0))])
        #expect(problems.first?.advice == "grant READ on topic requests")
        #expect(scene.committer.problems(now: scene.now, of: [TopicPartition("requests", 1)]).isEmpty)
    }
}

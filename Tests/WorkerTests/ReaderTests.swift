import Delivery
import Foundation
import Kafka
import Observability
import PushRecords
import TestSupport
import Testing

@testable import Worker

/// Reading a group's partitions into the machine, on librdkafka's in-process brokers.
@Suite(.waiting) struct ReaderTests {
    /// A reader with its loop, and a producer that writes the records to read.
    private final class Scene: DeadLetterSink {
        let cluster: MockCluster
        var topic: String { topics[0] }
        let wakeUp = WakeUp()
        let reader: GroupReader
        let log = MemorySink()
        var machine: DeliveryMachine
        /// The topics that the reader subscribes to.
        let topics: [String]
        let groupID = KafkaBroker.uniqueName("group")
        private let producer: Producer
        private let targets: [ProducerTopic]
        /// Whether the scene accepts dead letters.
        var takesLetters = true
        var letters: [(partition: Int32, offset: Int64)] = []
        /// How often there was no room for a dead letter.
        var refusals = 0
        var wantsMore = false
        /// Whether acknowledgements of dead letters are withheld.
        var holdsLetters = false
        var events: [DeliveryEvent] = []

        init(
            topics count: Int = 1, partitions: Int = 1, role: PartitionRole = .requests(weight: 1),
            cluster: MockCluster? = nil
        ) throws {
            self.cluster = try cluster ?? MockCluster()
            topics = (0..<count).map { _ in KafkaBroker.uniqueName("requests") }
            for topic in topics { try self.cluster.create(topic, partitions: partitions) }
            let settings = ClusterSettings(bootstrapServers: self.cluster.bootstrapServers)
            producer = try Producer(ProducerSettings(cluster: settings))
            targets = try topics.map(producer.topic)
            let logger = Logger(sink: log.write)
            let group: CommitGroup = if case .retry = role { .retries } else { .requests }
            reader = try GroupReader(
                ConsumerSettings(
                    cluster: settings, role: group == .retries ? .retries : .requests, groupID: groupID,
                    sessionTimeoutMs: 6_000),
                topics: topics, drainNs: 5_000_000_000, wakeUpDescriptor: wakeUp.descriptor, logger: logger,
                roleOfTopic: { _ in role })
            var machineSettings = MachineSettings()
            machineSettings.maxOpen = 100
            machine = DeliveryMachine(settings: machineSettings, apps: [])
        }

        /// The number of offsets that retention deleted before they were read.
        var skipped: Int64 {
            events.reduce(0) { sum, event in
                guard case .overtaken(_, let committed, let start) = event else { return sum }
                return sum + start - committed
            }
        }

        /// Runs turns for this time, to wait for effects that no event reports.
        func pass(seconds: Double) throws {
            let since = now.ns
            try run("some turns") { Double(now.ns - since) > seconds * 1e9 }
        }

        var now: DeliveryTime {
            let (ns, wallMs) = Logger.systemClock()
            return DeliveryTime(ns: ns, wallMs: wallMs)
        }

        func write(
            topic: Int = 0, partition: Int32 = 0, key: String? = nil, value: String?,
            headers: [(String, String)] = []
        ) throws {
            let lent = ([key, value] + headers.flatMap { [$0, $1] }).map { $0.map { Lent($0) } }
            let bytes = lent.map { $0?.bytes ?? .nothing }
            let list = headers.indices.map { MessageHeader(name: bytes[2 + 2 * $0], value: bytes[3 + 2 * $0]) }
            let code = withExtendedLifetime(lent) {
                producer.produce(
                    to: targets[topic], partition: partition, key: bytes[0], value: bytes[1], headers: list, tag: 1)
            }
            #expect(code == .none)
            let left = producer.flush(timeoutMs: 20_000, report: { _ in }, event: { _ in })
            #expect(left == 0)
        }

        func turn() {
            machine.advance(now: now)
            reader.markReadable()
            reader.serve(&machine, now: now)
            wantsMore = reader.read(into: &machine, now: now, deadLetters: self)
            if !holdsLetters {
                for id in acknowledged { machine.acknowledged(id, now: now) }
                acknowledged = []
            }
            reader.commit(&machine, now: now)
            let new = machine.takeEvents()
            for event in new { reader.note(event, now) }
            events += new
        }

        private var acknowledged: [NotificationID] = []

        var deadLetterBudget: Int {
            if !takesLetters { refusals += 1 }
            return takesLetters ? .max : -1
        }

        func publishDeadLetter(
            of message: borrowing Message, at place: RequestPlace, id: NotificationID, reason: DeadLetterReason,
            detail: Detail, now: DeliveryTime
        ) {
            letters.append((message.partition, message.offset))
            acknowledged.append(id)
        }

        func run(_ what: String, seconds: Double = ChildProcess.patience, until condition: () throws -> Bool) throws {
            let deadline = Date(timeIntervalSinceNow: seconds)
            turn()
            while try !condition() {
                guard Date() < deadline else {
                    throw ChildProcess.Failure.timedOut(
                        waitingFor: what, output: "letters \(letters) refusals \(refusals)\n\(log.lines)")
                }
                _ = wakeUp.wait(until: Date(timeIntervalSinceNow: wantsMore ? 0 : 0.02))
                turn()
            }
        }

        /// Writes `count` tombstones to an empty topic, and waits until they are read and committed.
        func readFirst(_ count: Int) throws {
            for _ in 0..<count { try write(value: nil) }
            try run("the letters") { letters.count == count }
            try run("the commit") { try committed() == Int64(count) }
        }

        /// Makes the coordinator reject the member as unknown, so that it loses its partitions.
        func loseSession() throws {
            cluster.fail(12, with: [.unknownMember])
            try run("the loss") { assigned.isEmpty }
        }

        /// The reader's problems, without the missing offsets of a new group that reads existing records.
        var problems: [Problem] { reader.problems(now).filter { $0.kind != .missingOffsets } }

        var assigned: [Int32] {
            reader.partitions.map(\.partition.partition).sorted()
        }

        func committed(_ partition: Int32 = 0) throws -> Int64? {
            try reader.consumer.committed([TopicPartition(topic, partition)], timeoutMs: 10_000).first?.offset
        }
    }

    private func retryHeaders(dueMs: Int64) -> [(String, String)] {
        [
            ("push-retry-request", "requests/0/5/0"), ("push-retry-attempt", "1"), ("push-retry-due-ms", "\(dueMs)"),
            ("push-retry-first-ms", "\(dueMs - 10_000)"), ("apns-topic", "com.example.shop"),
        ]
    }

    @Test func `A retry record that is not due is not read, and delays the record behind it`() throws {
        let scene = try Scene(role: .retry(delayMs: 60_000))
        let token = String(repeating: "ab", count: 32)
        let dueMs = scene.now.wallMs + 7_000
        try scene.write(key: token, value: #"{"aps":{}}"#, headers: retryHeaders(dueMs: dueMs))
        try scene.write(key: token, value: #"{"aps":{}}"#, headers: retryHeaders(dueMs: dueMs - 9_000))
        try scene.run("an assignment") { scene.assigned == [0] }
        try scene.run("the deadline") { scene.reader.nextDeadlineNs(now: scene.now) != nil }
        #expect(scene.machine.counters.recordsReceived == 0)
        try scene.run("nearly the time") { scene.now.wallMs >= dueMs - 300 }
        #expect(scene.machine.counters.recordsReceived == 0, "neither retry record is read early")
        try scene.run("both") { scene.machine.counters.recordsReceived == 2 }
        #expect(scene.now.wallMs >= dueMs)
        // Both records end as results, so the commit covers both.
        var produced = 0
        while let id = scene.machine.nextProduction(for: .results) {
            scene.machine.produced(id, to: .results)
            scene.machine.acknowledged(id, now: scene.now)
            produced += 1
        }
        #expect(produced == 2)
        try scene.run("the commit") { try scene.committed() == 2 }
    }

    /// A commit without a worker's metadata, as from a consumer with automatic commits.
    @Test func `A commit of another program in the group is a problem for ten minutes`() throws {
        let scene = try Scene()
        func problems(at now: DeliveryTime) -> [Problem] {
            scene.reader.problems(now).filter { $0.kind == .foreignCommit }
        }
        try scene.readFirst(1)
        try scene.reader.consumer.commit([CommitEntry(TopicPartition(scene.topic, 0), offset: 0)], tag: 99)
        try scene.run("the other program's commit") { try scene.committed() == 0 }
        #expect(problems(at: scene.now).isEmpty)
        try scene.loseSession()
        try scene.run("the problem") { !problems(at: scene.now).isEmpty }
        let found = try #require(problems(at: scene.now).first)
        #expect(found.subject == .group(scene.groupID) && found.text.contains("offset 0 of \(scene.topic)"), "\(found)")
        let now = scene.now
        #expect(problems(at: DeliveryTime(ns: now.ns + Problem.lossNs, wallMs: now.wallMs)).isEmpty)
    }

    @Test func `A retry record of another group is skipped, and the shared topic is reported`() throws {
        let scene = try Scene(role: .retry(delayMs: 60_000))
        let token = String(repeating: "ab", count: 32)
        for group in ["another", scene.groupID] {
            let headers = retryHeaders(dueMs: scene.now.wallMs + 50_000) + [("push-retry-group", group)]
            try scene.write(key: token, value: #"{"aps":{}}"#, headers: headers)
        }
        try scene.run("the commit past the first") { try scene.committed() == 1 }
        #expect(scene.machine.counters.recordsReceived == 0 && scene.letters.isEmpty)
        let problems = scene.reader.problems(scene.now)
        #expect(problems.map(\.subject) == [.topic(scene.topic)] && problems[0].text.contains("the group another"))
        // The second record waits only for its due time.
        try scene.run("the deadline") { scene.reader.nextDeadlineNs(now: scene.now) != nil }
    }

    @Test func `A dead letter without room waits in its partition's queue and delays no other partition`() throws {
        let scene = try Scene(partitions: 2)
        scene.takesLetters = false
        try scene.write(partition: 0, value: nil)
        try scene.run("the refusal") { scene.refusals > 0 }
        #expect(!scene.wantsMore, "a record that waits for room must not cause another read at once")
        #expect(scene.reader.nextDeadlineNs(now: scene.now) == nil)
        let before = scene.refusals
        try scene.write(partition: 1, key: String(repeating: "ab", count: 32), value: #"{"aps":{}}"#)
        try scene.run("the other partition") { scene.machine.counters.recordsReceived == 1 }
        #expect(scene.letters.isEmpty && scene.refusals >= before)
        scene.takesLetters = true
        try scene.run("the letter") { scene.letters.count == 1 }
        #expect(scene.machine.counters.deadLetters == 1, "the record is received once")
        try scene.run("its commit") { try scene.committed(0) == 1 }
    }

    @Test func `A topic whose committed offsets are unavailable delays no other topic`() throws {
        let cluster = try MockCluster()
        let scene = try Scene(topics: 2, partitions: 2, cluster: cluster)
        for topic in 0..<2 {
            for partition in [Int32(0), 1] { try scene.write(topic: topic, partition: partition, value: nil) }
        }
        // The broker denies the offsets of both topics, then of one topic alone.
        cluster.fail(9, with: [.topicAuthorizationFailed, .topicAuthorizationFailed])
        try scene.run("one topic") { scene.assigned == [0, 1] }
        let denied = try #require(scene.topics.first { !scene.reader.isAssigned(TopicPartition($0, 0)) })
        let problems = scene.reader.problems(scene.now).filter { $0.names(.topicAuthorizationFailed) }
        #expect(problems.count == 2)
        #expect(problems.allSatisfy { $0.advice == "grant READ on topic \(denied)" })
        try scene.run("its letters") { scene.letters.count == 2 }
        try scene.run("both topics") { scene.assigned == [0, 0, 1, 1] }
        try scene.run("all letters") { scene.letters.count == 4 }
        #expect(scene.problems.isEmpty)
    }

    @Test func `A partition's problem ends when the group member loses the partition`() throws {
        let scene = try Scene(topics: 2, partitions: 2)
        // The broker denies the offsets of both topics, then of one topic alone, then each repeat for that topic.
        scene.cluster.fail(
            9,
            with: [.topicAuthorizationFailed, .topicAuthorizationFailed, .none]
                + Array(repeating: .topicAuthorizationFailed, count: 20))
        try scene.run("one topic") { scene.assigned == [0, 1] }
        let denied = try #require(scene.topics.first { !scene.reader.isAssigned(TopicPartition($0, 0)) })
        func unread() -> [Problem.Subject] {
            scene.reader.problems(scene.now).filter { $0.names(.topicAuthorizationFailed) }.map(\.subject)
        }
        #expect(Set(unread()) == [.partition(TopicPartition(denied, 0)), .partition(TopicPartition(denied, 1))])
        try scene.loseSession()
        #expect(unread().isEmpty)
    }

    @Test func `A failed rejoin ends the reader`() throws {
        let scene = try Scene()
        try scene.write(value: nil)
        try scene.run("the letter") { scene.letters.count == 1 }
        // librdkafka rejects an invalid pattern.
        scene.reader.topics = ["^["]
        scene.reader.rejoin("a test", scene.now)
        #expect(scene.reader.fatalError != nil)
        scene.turn()
        #expect(scene.assigned.isEmpty && scene.reader.hasLeft)
    }

    @Test func `Lost partitions that are assigned again continue where they were`() throws {
        let scene = try Scene()
        try scene.readFirst(5)
        try scene.loseSession()
        for _ in 0..<3 { try scene.write(value: nil) }
        try scene.run("the return") { scene.letters.count == 8 }
        #expect(scene.letters.map(\.offset) == Array(0..<8))
        #expect(
            scene.log.lines.contains { $0.contains("warning kafka: partitions lost") && $0.contains("count=1") },
            "\(scene.log.lines)")
        #expect(!scene.log.lines.contains { $0.contains("given up") }, "\(scene.log.lines)")
        #expect(scene.reader.partitionsLost == 1 && scene.reader.rebalances >= 2)
    }

    @Test func `A group without offsets commits the start of its partitions at once`() throws {
        let scene = try Scene(partitions: 2)
        try scene.run("the commits") { try scene.committed(0) == 0 && scene.committed(1) == 0 }
        try scene.write(value: nil)
        try scene.run("the letter's commit") { try scene.committed() == 1 }
    }

    @Test func `A group without offsets reports the existing records, or skips them if configured`() throws {
        let scene = try Scene(partitions: 2)
        for partition in [Int32(0), 0, 1, 1, 1] { try scene.write(partition: partition, value: nil) }
        scene.reader.startingAtEnd = [TopicPartition(scene.topic, 1)]
        try scene.run("the commits") { try scene.committed(0) == 2 && scene.committed(1) == 3 }
        #expect(scene.letters.map(\.partition) == [0, 0])
        #expect(
            scene.events.contains {
                if case .startedWithoutOffset(_, offset: 0, records: 2, ageMs: _?) = $0 { true } else { false }
            },
            "\(scene.events)")
        let problems = scene.reader.problems(scene.now)
        #expect(problems.map(\.kind) == [.missingOffsets] && problems[0].text.contains("\(scene.topic)/0: "))
        #expect(scene.log.lines.contains { $0.contains("delivery.start: latest") && $0.contains("skipped=3") })
        try scene.write(partition: 1, value: nil)
        try scene.run("the next") { scene.letters.map(\.offset) == [0, 1, 3] }
    }

    @Test func `A dead letter that waits for room outlives a lost session`() throws {
        let scene = try Scene()
        scene.takesLetters = false
        try scene.write(value: nil)
        try scene.run("the refusal") { scene.refusals > 0 && !scene.assigned.isEmpty }
        #expect(scene.machine.counters.recordsReceived == 0, "a record that waits is not received")
        try scene.loseSession()
        scene.takesLetters = true
        try scene.run("the letter") { scene.letters.count == 1 }
        try scene.run("its commit") { try scene.committed() == 1 }
    }

    @Test func `An unreadable batch is reported, stops its partition and delays no other partition`() throws {
        let scene = try Scene(partitions: 2)
        try scene.write(value: nil)
        try scene.run("the first letter") { scene.letters.count == 1 }
        try RawProducer.write(
            RawProducer.unreadableBatch(records: 3), to: TopicPartition(scene.topic, 0),
            at: scene.cluster.bootstrapServers)
        try scene.write(value: nil)
        try scene.run("its name") { !scene.problems.isEmpty }
        let named = scene.problems
        #expect(named.map(\.subject) == [.partition(TopicPartition(scene.topic, 0))])
        #expect(named.first?.names(.badCompression) == true)
        #expect(named.first?.advice.contains("kafka-delete-records") == true)
        try scene.write(partition: 1, value: nil)
        try scene.run("the other partition's letter") { scene.letters.count == 2 }
        #expect(scene.letters.map(\.partition) == [0, 1])
        // librdkafka fetches the batch again in the meantime.
        try scene.pass(seconds: 2.5)
        #expect(scene.letters.count == 2)
        try scene.run("the commit below it") { try scene.committed() == 1 }
    }

    // MARK: Leaving

    @Test func `The reader can leave a group before it reads its assigned partitions`() throws {
        let cluster = try MockCluster()
        let scene = try Scene(cluster: cluster)
        // The broker's answers take longer than the reader waits for them.
        try cluster.setRoundTrip(milliseconds: 1_500)
        try scene.run("the assignment") { scene.reader.lookup != nil }
        #expect(scene.assigned.isEmpty)
        try cluster.setRoundTrip(milliseconds: 0)
        scene.reader.leave(&scene.machine, limitNs: 1_000_000_000, now: scene.now)
        try scene.run("the end") { scene.reader.hasLeft }
        #expect(scene.assigned.isEmpty)
    }

    @Test func `Revoked partitions drain no longer than the time limit for leaving the group`() throws {
        let scene = try Scene()
        try scene.readFirst(1)
        scene.holdsLetters = true
        try scene.write(value: nil)
        try scene.run("the letter that is not acknowledged") { scene.letters.count == 2 }
        // The partition is revoked, with five seconds to drain.
        scene.reader.subscribe(to: scene.topics + ["another"])
        try scene.run("the revocation") { scene.log.lines.contains { $0.contains("partitions revoked") } }
        #expect(scene.assigned == [0])
        scene.reader.leave(&scene.machine, limitNs: 300_000_000, now: scene.now)
        try scene.run("the end") { scene.reader.hasLeft }
        #expect(!scene.log.lines.contains { $0.contains("partitions lost") }, "\(scene.log.lines)")
    }

    // MARK: Offsets out of range

    @Test func `After an offset beyond the log's end the topic counts as recreated and is read from its beginning`()
        throws
    {
        let scene = try Scene()
        scene.reader.context.condemned = [
            CrashHistory.Place(topic: scene.topic, partition: 0, offset: 9),
            CrashHistory.Place(topic: "another", partition: 0, offset: 9),
        ]
        try scene.readFirst(5)
        #expect(scene.reader.context.condemned.count == 2)
        // librdkafka handles only the log's end of the first fetch answer that reaches it (rdkafka_fetcher.c).
        try scene.pass(seconds: 1.5)
        // OFFSET_OUT_OF_RANGE
        scene.cluster.fail(1, with: [KafkaCode(rawValue: 1)])
        try scene.run("the refusal") { scene.log.lines.contains { $0.contains("offset out of range") } }
        try scene.run("the letters again") { scene.letters.count == 10 }
        #expect(scene.letters.map(\.offset) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4])
        #expect(scene.events.count { if case .logChanged = $0 { true } else { false } } == 1, "\(scene.events)")
        #expect(scene.reader.context.condemned.map(\.topic) == ["another"])
        try scene.write(value: nil)
        try scene.run("the next") { scene.letters.count == 11 }
        try scene.run("the commit") { try scene.committed() == 6 }
        #expect(scene.skipped == 0 && scene.reader.partitions.count == 1)
    }

    @Test func `Records that retention deleted before they were read are counted`() throws {
        let scene = try Scene()
        scene.takesLetters = false
        try scene.write(value: "x")
        try scene.run("the refusal") { scene.refusals > 0 }
        // The mock broker keeps 5 MiB of a partition, and librdkafka prefetches 1 MiB of unread records. The text is
        // random, because the producer compresses records.
        let count = 16
        for _ in 1..<count {
            let words = (0..<62_500).map { _ in String(UInt64.random(in: 1 << 60...(.max)), radix: 16) }
            try scene.write(value: words.joined())
        }
        scene.takesLetters = true
        try scene.run("the last letter") { scene.letters.last?.offset == Int64(count - 1) }
        let offsets = scene.letters.map(\.offset)
        #expect(offsets == offsets.sorted() && Set(offsets).count == offsets.count)
        #expect(offsets.count < count)
        #expect(scene.skipped == Int64(count - offsets.count), "\(offsets) \(scene.log.lines)")
        #expect(!scene.events.contains { if case .logChanged = $0 { true } else { false } }, "\(scene.events)")
        #expect(scene.problems.isEmpty)
        try scene.run("the commit") { try scene.committed() == Int64(count) }
    }

    @Test func `The name of an unavailable topic is parsed from librdkafka's message`() {
        let text = "Subscribed topic not available: apns.requests: Broker: Topic authorization failed"
        #expect(ReadingProblems.unavailableTopic(in: text) == "apns.requests")
        #expect(ReadingProblems.unavailableTopic(in: "Connection refused") == nil)
    }
}

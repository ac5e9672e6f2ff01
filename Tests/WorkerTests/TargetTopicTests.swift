import Kafka
import Testing

@testable import Worker

/// A topic whose records a simulated broker rejects, some of them or all.
struct TargetTopicTests {
    private static let bad = [KafkaCode.invalidRecord, .policyViolation]
    private static let unknownServerError = KafkaCode(rawValue: -1)

    // MARK: Rule 1: a topic that rejects records is closed, reported and probed with single records

    @Test func `A denied topic is probed with one record at a time, after pauses that double up to a limit`() throws {
        var run = try Run { _, _ in .topicAuthorizationFailed }
        run.produce(0..<3)
        var tries: [Int64] = []
        for second in 0..<122 as Range<Int64> {
            let before = run.tries
            run.go(seconds: 1)
            if run.tries > before { tries.append(second) }
        }
        #expect(tries == [0, 1, 3, 7, 15, 31, 61, 91, 121])
        #expect(!run.topic.isOpen && run.topic.cause?.code == .topicAuthorizationFailed && run.topic.refusedCount == 3)
    }

    @Test(arguments: bad + [.topicAuthorizationFailed])
    func `A topic that rejects every record produces no dead letters, and all records are written once it accepts them`(
        code: KafkaCode
    ) throws {
        var run = try Run { _, _ in code }
        run.produce(0..<100)
        run.produceSlowly(100..<700)
        #expect(run.written.isEmpty && run.rejected.isEmpty)
        let isTopics = code == .topicAuthorizationFailed
        #expect(run.topic.cause?.code == (isTopics ? code : nil))
        #expect(run.topic.causeOfSingle?.refusesAll == (isTopics ? nil : true))
        if isTopics { #expect(run.tries < 30, "the limit is 30 probes in 10 minutes") }
        run.verdict = { _, _ in nil }
        run.go(seconds: 62)
        #expect(run.written.count == 700 && Set(run.written) == Set(0..<700) && run.topic.isIdle && run.topic.isOpen)
        if code == .topicAuthorizationFailed { #expect(run.written == run.written.sorted()) }
    }

    @Test func `When a closed topic accepts a record, its rejected records are written before new ones`() throws {
        var topic = TargetTopic("results")
        let run = try Run()
        for tag in 1...3 as ClosedRange<UInt64> { topic.take(run.record(tag), .alone) }
        topic.close(.unknownTopicOrPartition, nowNs: 0)
        #expect(topic.nextTryNs == Run.second)
        #expect(Run.write(&topic, at: Run.second - 1) == [] && Run.write(&topic, at: Run.second) == [1])
        // A record that is rejected during a probe waits for the probe's answer.
        topic.take(run.record(4), .alone)
        #expect(Run.write(&topic, at: Run.second) == [])
        topic.written(1)
        #expect(Run.write(&topic, at: Run.second) == [2, 3, 4] && !topic.isOpen && topic.cause == nil)
        // Records that are rejected again keep the order of their production.
        for tag in [3, 2] as [UInt64] {
            _ = topic.refused(run.record(tag), .unknownTopicOrPartition, partition: 0, nowNs: Run.second)
        }
        #expect(topic.cause != nil && Run.write(&topic, at: 2 * Run.second) == [2])
        topic.written(2)
        #expect(Run.write(&topic, at: 2 * Run.second) == [3])
        for tag in [3, 4] as [UInt64] { topic.written(tag) }
        #expect(Run.write(&topic, at: 2 * Run.second) == [] && topic.isOpen && topic.isIdle)
    }

    @Test func `A closed topic opens when it has no record left to probe with`() throws {
        var topic = TargetTopic("tier")
        topic.take(try Run().record(1), .alone)
        topic.close(.unknownTopicOrPartition, nowNs: 0)
        #expect(Run.write(&topic, at: Run.second) == [1])
        topic.remove(1)
        #expect(Run.write(&topic, at: Run.second) == [] && topic.isOpen)
    }

    @Test func `New records wait while a topic has as many rejected records as its limit`() throws {
        var topic = TargetTopic("results")
        let run = try Run()
        for tag in 1...UInt64(TargetTopic.limit) {
            #expect(topic.isOpen)
            topic.take(run.record(tag), .together)
        }
        #expect(!topic.isOpen)
        #expect(Run.write(&topic, at: 0).count == TargetTopic.limit && topic.isOpen)
    }

    // MARK: Rule 2: a record that is too large has one reduced form

    @Test func `A record that is too large does not close its topic and is written in its reduced form`() throws {
        var topic = TargetTopic("results")
        let record = try Run().record(1)
        topic.take(record, .alone)
        #expect(topic.isOpen && Run.write(&topic, at: 0) == [1] && topic.form(of: 1) == .alone)
        topic.writeAgain(record, isReduced: true)
        #expect(Run.write(&topic, at: 0) == [1] && topic.form(of: 1) == .reduced)
        topic.written(1)
        #expect(topic.isOpen && topic.isIdle)
    }

    @Test func `After a change of producer, a record that was written alone is written alone again`() throws {
        var topic = TargetTopic("results")
        let run = try Run()
        topic.take(run.record(1), .together)
        topic.take(run.record(2), .alone)
        #expect(Run.write(&topic, at: 0) == [1, 2])
        #expect(topic.form(of: 1) == nil && topic.form(of: 2) == .alone)
        topic.writeAgain(run.record(2))
        #expect(Run.write(&topic, at: 0) == [2] && topic.form(of: 2) == .alone)
        topic.written(2)
        #expect(topic.isIdle)
    }

    // MARK: Rule 3: a record that is rejected while others are accepted becomes a dead letter

    @Test func `One bad record among a hundred becomes a dead letter, and the others are written in order`() throws {
        for bad in 0..<100 as Range<UInt64> {
            var run = try Run { tag, _ in tag == bad ? .invalidRecord : nil }
            run.produce(0..<100)
            run.go(seconds: 1)
            #expect(Set(run.written) == Set(0..<100).subtracting([bad]), "with \(bad)")
            #expect(run.written == run.written.sorted() && run.topic.isOpen, "with \(bad)")
            // One more record each second shows that the fault lies in the record, not in the topic.
            run.produceSlowly(100..<120)
            #expect(run.rejected == [bad] && run.written.count == 119 && run.topic.rejectedCount == 1, "with \(bad)")
            #expect(run.topic.isIdle && run.topic.isOpen, "with \(bad)")
        }
    }

    @Test(arguments: bad, [1, 3, 8, 25, 400] as [UInt64])
    func `Good records are written soon after any number of bad records`(code: KafkaCode, bad: UInt64) throws {
        var run = try Run { tag, _ in tag < bad ? code : nil }
        run.produce(0..<bad)
        run.go(seconds: 1)
        for tag in bad..<bad + 100 {
            run.produceSlowly(tag..<tag + 1)
            #expect(run.written.last == tag || tag < bad + 3, "\(tag)")
        }
        #expect(Set(run.rejected) == Set(0..<bad) && run.topic.isIdle && run.topic.isOpen)
    }

    @Test(arguments: bad) func `Recurring bad records delay good records by at most one probe`(
        code: KafkaCode
    ) throws {
        var run = try Run { tag, _ in tag % 10 == 3 ? code : nil }
        for first in stride(from: 0, to: 6_000, by: 20) as StrideTo<UInt64> {
            run.produce(first..<first + 20)
            run.go(seconds: 1)
            #expect(run.written.count >= (0..<first).count { $0 % 10 != 3 })
        }
        #expect(Set(run.written).isDisjoint(with: run.rejected))
    }

    @Test func `Records that a faulty partition leader rejects are written once it recovers`() throws {
        var run = try Run { tag, partition in partition == 1 && tag % 2 == 0 ? Self.unknownServerError : nil }
        run.produceSlowly(0..<300)
        #expect(run.rejected.isEmpty && run.topic.causeOfSingle?.code == Self.unknownServerError)
        run.verdict = { _, _ in nil }
        run.go(seconds: 61)
        #expect(Set(run.written) == Set(0..<300) && run.topic.isIdle)
    }

    @Test func `A record that is rejected for many minutes while others are accepted becomes a dead letter`() throws {
        var run = try Run { tag, _ in tag == 7 ? Self.unknownServerError : nil }
        run.produceSlowly(0..<421)
        #expect(run.rejected.isEmpty)
        run.produceSlowly(421..<1_200)
        #expect(run.rejected == [7] && run.topic.isIdle)
    }

    @Test func `The reduced form of a dead letter is retried without end and does not close its topic`() throws {
        var run = try Run { tag, _ in tag == 7 ? .invalidRecord : nil }
        run.isDeadLetter = true
        run.produceSlowly(0..<300)
        #expect(run.rejected.isEmpty && run.reduced == [7])
        #expect(run.written.count == 299 && run.topic.isOpen && run.topic.causeOfSingle?.code == .invalidRecord)
        run.verdict = { _, _ in nil }
        run.go(seconds: 31)
        #expect(run.written.count == 300 && run.topic.isIdle && run.topic.causeOfSingle == nil)
    }

    // MARK: Partitions that report nothing

    @Test(arguments: 0..<4 as Range<Int32>)
    func `A closed topic opens again although one of its partitions does not answer`(silent: Int32) throws {
        var run = try Run(partitions: 4) { _, _ in .topicAuthorizationFailed }
        run.produce(0..<1_000)
        run.go(seconds: 2)
        #expect(run.topic.cause != nil)
        run.isSilent = { $0 == silent }
        run.verdict = { _, _ in nil }
        run.go(seconds: 20)
        #expect(Set(run.written) == Set((0..<1_000).filter { $0 % 4 != UInt64(silent) }))
        #expect(run.topic.isOpen && !run.topic.isIdle && run.topic.refusedCount == 0)
        // New records are written at once.
        run.produce(1_000..<1_100)
        run.go(seconds: 1)
        #expect(run.written.count == 825)
        run.isSilent = { _ in false }
        run.go(seconds: 1)
        #expect(run.written.count == 1_100 && Set(run.written).count == 1_100)
        #expect(run.topic.isIdle && run.topic.isOpen)
    }

    @Test func `A topic that does not answer at all is probed less and less often`() throws {
        var run = try Run(partitions: 4) { _, _ in .topicAuthorizationFailed }
        run.produce(0..<1_500)
        run.isSilent = { _ in true }
        run.go(seconds: 1)
        run.isSilent = { _ in false }
        run.go(seconds: 1)
        run.isSilent = { _ in true }
        let before = run.tries
        run.go(seconds: 600)
        #expect(run.tries - before < 30 && run.written.isEmpty && !run.topic.isOpen)
        run.verdict = { _, _ in nil }
        run.isSilent = { _ in false }
        run.go(seconds: 1)
        #expect(Set(run.written) == Set(0..<1_500) && run.topic.isIdle && run.topic.isOpen)
    }

    @Test func `The number of records that are written alone at the same time is limited`() throws {
        var topic = TargetTopic("results")
        let run = try Run()
        let count = UInt64(TargetTopic.limit)
        for tag in 1...count + 10 { topic.take(run.record(tag), .alone) }
        #expect(Run.write(&topic, at: 0) == Array(1...count) && topic.nextTryNs == nil)
        topic.written(7)
        #expect(Run.write(&topic, at: 0) == [count + 1])
    }
}

/// A topic with a simulated broker and clock. A record's tag determines its partition.
private struct Run {
    static let second: Int64 = 1_000_000_000

    /// The topic handle of the records. Its broker is never contacted.
    private let handle: ProducerTopic
    private let partitions: UInt64
    /// Returns the code with which the broker rejects a record, or `nil` if the broker accepts the record.
    var verdict: (UInt64, Int32) -> KafkaCode?
    /// Returns whether a partition reports nothing.
    var isSilent: (Int32) -> Bool = { _ in false }
    private var silentAlone: [UInt64] = []
    private var silentAmongOthers: [UInt64] = []
    var topic = TargetTopic("results")
    /// The tags of the written records, in the order of acknowledgement.
    private(set) var written: [UInt64] = []
    private(set) var rejected: [UInt64] = []
    private(set) var reduced: [UInt64] = []
    /// Whether a rejected record is written again in its reduced form, as a dead letter is.
    var isDeadLetter = false
    /// The number of records written alone plus the number of batches.
    private(set) var tries = 0
    private var nowNs: Int64 = 0
    /// Records that wait until the topic is open.
    private var waiting: [UInt64] = []

    init(partitions: UInt64 = 3, _ verdict: @escaping (UInt64, Int32) -> KafkaCode? = { _, _ in nil }) throws {
        let producer = try Producer(ProducerSettings(cluster: ClusterSettings(bootstrapServers: "127.0.0.1:1")))
        handle = try producer.topic("results")
        self.partitions = partitions
        self.verdict = verdict
    }

    func record(_ tag: UInt64) -> UndeliveredRecord {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        return UndeliveredRecord(
            copying: none, none, headers: UnsafeBufferPointer(start: nil, count: 0), to: handle, tag: tag)
    }

    /// Writes all records that may be written, and returns their tags.
    static func write(_ topic: inout TargetTopic, at ns: Int64) -> [UInt64] {
        var tags: [UInt64] = []
        while let (refused, isSingle) = topic.next(nowNs: ns) {
            topic.wrote(refused, isSingle: isSingle, nowNs: ns)
            tags.append(refused.record.tag)
        }
        return tags
    }

    private func partition(_ tag: UInt64) -> Int32 { Int32(tag % partitions) }

    mutating func produce(_ tags: Range<UInt64>) { waiting += tags }

    /// Produces one record each second.
    mutating func produceSlowly(_ tags: Range<UInt64>) {
        for tag in tags {
            produce(tag..<tag + 1)
            go(seconds: 1)
        }
    }

    mutating func go(seconds: Int64) {
        for _ in 0..<seconds * 10 {
            turn()
            nowNs += 100_000_000
        }
    }

    private mutating func turn() {
        let alone = silentAlone.filter { !isSilent(partition($0)) }
        silentAlone = silentAlone.filter { isSilent(partition($0)) }
        for tag in alone { report(tag) }
        let together = silentAmongOthers.filter { !isSilent(partition($0)) }
        silentAmongOthers = silentAmongOthers.filter { isSilent(partition($0)) }
        writeTogether(together)
        if topic.isOpen {
            writeTogether(waiting)
            waiting = []
        }
        while true {
            var alone: [UInt64] = []
            var together: [UInt64] = []
            while let (refused, isSingle) = topic.next(nowNs: nowNs) {
                topic.wrote(refused, isSingle: isSingle, nowNs: nowNs)
                if isSingle { alone.append(refused.record.tag) } else { together.append(refused.record.tag) }
            }
            if alone.isEmpty, together.isEmpty { return }
            for tag in alone {
                tries += 1
                if isSilent(partition(tag)) { silentAlone.append(tag) } else { report(tag) }
            }
            writeTogether(together)
        }
    }

    private mutating func writeTogether(_ all: [UInt64]) {
        silentAmongOthers += all.filter { isSilent(partition($0)) }
        let batch = all.filter { !isSilent(partition($0)) }
        if batch.isEmpty { return }
        tries += 1
        guard let code = batch.compactMap({ verdict($0, partition($0)) }).first else {
            written += batch
            return batch.forEach { _ in topic.written() }
        }
        for tag in batch {
            topic.take(record(tag), .alone)
            if code.fault == .topic { topic.close(code, nowNs: nowNs) }
        }
    }

    private mutating func report(_ tag: UInt64) {
        guard let code = verdict(tag, partition(tag)) else {
            topic.written(tag)
            return written.append(tag)
        }
        let isReplaceable = !isDeadLetter || topic.form(of: tag) != .reduced
        guard
            topic.refused(record(tag), code, partition: partition(tag), isReplaceable: isReplaceable, nowNs: nowNs)
        else { return }
        if isDeadLetter {
            reduced.append(tag)
            topic.writeAgain(record(tag), isReduced: true)
        } else {
            rejected.append(tag)
            topic.remove(tag)
        }
    }
}

/// The time that records wait for their acknowledgement, without a producer.
struct AcknowledgementWatchTests {
    @Test func `A topic is overdue ten seconds after its last acknowledgement while records wait`() {
        let second: Int64 = 1_000_000_000
        var watch = AcknowledgementWatch()
        watch.handedOver(nowNs: 5)
        watch.handedOver(nowNs: 5)
        #expect(!watch.isOverdue(nowNs: 5 + AcknowledgementWatch.namedNs - 1))
        #expect(watch.isOverdue(nowNs: 5 + AcknowledgementWatch.namedNs))
        watch.reported(nowNs: 20 * second)
        #expect(!watch.isOverdue(nowNs: 29 * second) && watch.isOverdue(nowNs: 30 * second))
        watch.reported(nowNs: 40 * second)
        #expect(!watch.isOverdue(nowNs: 60 * second))
        // The time without waiting records does not count.
        watch.handedOver(nowNs: 60 * second)
        #expect(!watch.isOverdue(nowNs: 61 * second))
    }
}

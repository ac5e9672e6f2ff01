import Kafka
import Testing

@testable import Worker

/// A topic that refuses single records, or all of them, by a broker that knows which; without a broker.
struct RejectedRecordTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    @Test func `One bad record among a hundred goes elsewhere, wherever it stands, and the rest is written in order`()
        throws
    {
        for bad in 0..<100 as Range<UInt64> {
            var run = scene.run { tag, _ in tag == bad ? .invalidRecord : nil }
            run.produce(0..<100)
            run.go(seconds: 5)
            #expect(Set(run.written) == Set(0..<100).subtracting([bad]), "with \(bad)")
            #expect(run.written == run.written.sorted(), "with \(bad)")
            #expect(run.topic.isClear, "with \(bad)")
            // One more each second: they show that it is the record.
            for tag in 100..<120 as Range<UInt64> {
                run.produce(tag..<tag + 1)
                run.go(seconds: 1)
            }
            #expect(run.rejected == [bad] && run.written.count == 119 && run.topic.rejectedCount == 1, "with \(bad)")
            #expect(run.topic.isIdle && run.topic.isClear && run.topic.refusedBytes == 0, "with \(bad)")
        }
    }

    @Test(arguments: [.invalidRecord, .policyViolation] as [KafkaCode], [1, 3, 8, 25, 400] as [UInt64])
    func `However many bad records come first, good ones are written soon`(code: KafkaCode, bad: UInt64) throws {
        var run = scene.run { tag, _ in tag < bad ? code : nil }
        run.produce(0..<bad)
        run.go(seconds: 1)
        for tag in bad..<bad + 100 {
            run.produce(tag..<tag + 1)
            run.go(seconds: 1)
            #expect(run.written.last == tag || tag < bad + 3, "\(tag)")
        }
        #expect(Set(run.rejected) == Set(0..<bad) && run.topic.isIdle && run.topic.isClear)
    }

    @Test(arguments: [.invalidRecord, .policyViolation] as [KafkaCode])
    func `Bad records that come again and again hold up the good ones for no longer than a try`(code: KafkaCode) throws
    {
        var run = scene.run { tag, _ in tag % 10 == 3 ? code : nil }
        for first in stride(from: 0, to: 6_000, by: 20) as StrideTo<UInt64> {
            run.produce(first..<first + 20)
            run.go(seconds: 1)
            let good = (0..<first).filter { $0 % 10 != 3 }
            #expect(run.written.count >= good.count, "\(run.written.count) of \(good.count)")
        }
        #expect(Set(run.written).isDisjoint(with: run.rejected))
    }

    @Test func `A topic that refuses all is the topic's trouble, and is tried ever less often`() throws {
        for code in [.invalidRecord, .policyViolation, .topicAuthorizationFailed] as [KafkaCode] {
            var run = scene.run { _, _ in code }
            run.produce(0..<100)
            for tag in 100..<700 as Range<UInt64> {
                run.produce(tag..<tag + 1)
                run.go(seconds: 1)
            }
            #expect(run.written.isEmpty && run.rejected.isEmpty)
            #expect(run.topic.cause?.code == code && run.topic.causeOfSingle == nil)
            // Once those that came back together, each by itself, where it may be their own fault.
            let once = code == .topicAuthorizationFailed ? 0 : 100
            #expect(run.tries < 30 + once, "\(run.tries) in 10 minutes")
            run.verdict = { _, _ in nil }
            run.go(seconds: 31)
            // All but the one that it was tried with last, in order.
            #expect(run.written.count == 700 && Set(run.written) == Set(0..<700) && run.topic.isIdle)
            #expect(run.written.dropFirst().elementsEqual(run.written.dropFirst().sorted()))
        }
    }

    @Test func `A bad record alone does not keep the next ones away`() throws {
        var run = scene.run { tag, _ in tag == 0 ? .policyViolation : nil }
        run.produce(0..<1)
        run.go(seconds: 60)
        #expect(run.topic.isOpen && !run.topic.isClear, "the next one shows whose fault it is")
        for tag in 1..<60 as Range<UInt64> {
            run.produce(tag..<tag + 1)
            run.go(seconds: 2)
        }
        #expect(run.rejected == [0] && run.written == Array(1..<60))
    }

    @Test func `A topic that is denied is tried with nothing new`() throws {
        var run = scene.run { _, _ in .topicAuthorizationFailed }
        run.produce(0..<1)
        run.go(seconds: 60)
        #expect(!run.topic.isOpen)
    }

    @Test func `What a leader in trouble refuses beside others is written once it is well`() throws {
        let unknownServerError = KafkaCode(rawValue: -1)
        var run = scene.run { tag, partition in partition == 1 && tag % 2 == 0 ? unknownServerError : nil }
        for tag in 0..<300 as Range<UInt64> {
            run.produce(tag..<tag + 1)
            run.go(seconds: 1)
        }
        #expect(run.rejected.isEmpty && run.topic.causeOfSingle?.code == unknownServerError)
        run.verdict = { _, _ in nil }
        run.go(seconds: 61)
        #expect(Set(run.written) == Set(0..<300) && run.topic.isIdle)
    }

    @Test func `What is refused beside others for many minutes is given up, whatever the code`() throws {
        var run = scene.run { tag, _ in tag == 7 ? KafkaCode(rawValue: -1) : nil }
        for tag in 0..<1_200 as Range<UInt64> {
            run.produce(tag..<tag + 1)
            run.go(seconds: 1)
            if tag == 420 { #expect(run.rejected.isEmpty) }
        }
        #expect(run.rejected == [7] && run.topic.isIdle)
    }

    @Test func `The reduced form of a dead letter is tried for as long as it takes, and blocks nothing`() throws {
        var run = scene.run { tag, _ in tag == 7 ? .invalidRecord : nil }
        run.isDeadLetter = true
        for tag in 0..<300 as Range<UInt64> {
            run.produce(tag..<tag + 1)
            run.go(seconds: 1)
        }
        #expect(run.rejected.isEmpty && run.reduced == [7] && run.topic.form(of: 7) == nil)
        #expect(run.written.count == 299 && run.topic.isClear)
        #expect(run.topic.causeOfSingle?.code == .invalidRecord)
        run.verdict = { _, _ in nil }
        run.go(seconds: 31)
        #expect(run.written.count == 300 && run.topic.isIdle && run.topic.causeOfSingle == nil)
    }

    @Test func `Many records that stand apart keep new ones away`() throws {
        var run = scene.run { tag, _ in tag > 0 ? .policyViolation : nil }
        for tag in 1...UInt64(TargetTopic.refusedLimit) { run.topic.take(run.record(tag), .alone) }
        #expect(!run.topic.isClear && !run.topic.isOpen)
    }
}

/// A topic with partitions that report nothing.
struct SilentPartitionTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    @Test(arguments: 0..<4 as Range<Int32>)
    func `A topic that was blocked is written again though one of its four partitions is silent`(silent: Int32) throws {
        var run = scene.run(partitions: 4) { _, _ in .topicAuthorizationFailed }
        run.produce(0..<1_000)
        run.go(seconds: 2)
        #expect(run.topic.cause != nil)
        run.isSilent = { $0 == silent }
        run.go(seconds: 3)
        run.verdict = { _, _ in nil }
        run.go(seconds: 20)
        let others = (0..<1_000 as Range<UInt64>).filter { $0 % 4 != UInt64(silent) }
        #expect(Set(run.written) == Set(others))
        #expect(run.topic.isClear && run.topic.awaitsReport && run.topic.refusedCount == 0)
        // What is new goes at once.
        run.produce(1_000..<1_100)
        run.go(seconds: 1)
        #expect(run.written.count == others.count + 75)
        run.isSilent = { _ in false }
        run.go(seconds: 1)
        #expect(run.written.count == 1_100 && Set(run.written).count == 1_100)
        #expect(run.topic.isIdle && run.topic.isClear)
        for partition in 0..<4 as Range<UInt64> where partition != UInt64(silent) {
            let own = run.written.filter { $0 % 4 == partition }
            // But for the one that was tried while the topic refused all.
            #expect(own.dropFirst(4).elementsEqual(own.dropFirst(4).sorted()), "partition \(partition)")
        }
    }

    @Test func `A topic that is wholly silent is tried no more often than once in two seconds, and has a limit`() throws
    {
        var run = scene.run(partitions: 4) { _, _ in .topicAuthorizationFailed }
        run.produce(0..<1_500)
        run.go(seconds: 1)
        run.isSilent = { _ in true }
        for seconds in [60, 2_200] as [Int64] {
            let before = run.tries
            run.go(seconds: seconds)
            #expect(run.tries - before <= Int(seconds) / 2 + 1)
            #expect(run.tries - before >= min(Int(seconds) / 2 - 2, 600))
        }
        #expect(run.silent.count == TargetTopic.refusedLimit && run.written.isEmpty && !run.topic.isOpen)
        run.verdict = { _, _ in nil }
        run.isSilent = { _ in false }
        run.go(seconds: 1)
        #expect(Set(run.written) == Set(0..<1_500) && run.topic.isIdle && run.topic.isClear)
    }

    @Test func `Records that may be bad themselves are tried once each, and silent ones keep nothing away`() throws {
        var run = scene.run(partitions: 4) { tag, _ in tag % 4 != 1 && tag < 400 ? .policyViolation : nil }
        run.isSilent = { $0 == 1 }
        for tag in 0..<400 as Range<UInt64> { run.topic.take(run.record(tag), .alone) }
        run.topic.block(.policyViolation, nowNs: 0)
        run.go(seconds: 5)
        #expect(run.silent.count == 100 && run.tries >= 400, "each was tried by itself")
        run.go(seconds: 15)
        #expect(run.written.isEmpty)
        for tag in 400..<460 as Range<UInt64> {
            run.produce(tag..<tag + 1)
            run.go(seconds: 2)
        }
        #expect(Set(run.written) == Set((400..<460).filter { $0 % 4 != 1 }))
        #expect(Set(run.rejected) == Set((0..<400).filter { $0 % 4 != 1 }))
        #expect(run.topic.isClear)
    }
}

/// Makes records, and a broker for them.
private struct Scene {
    /// Never asked for anything; a record names its topic by one.
    let handle: ProducerTopic

    init() throws {
        let producer = try Producer(ProducerSettings(cluster: ClusterSettings(bootstrapServers: "127.0.0.1:1")))
        handle = try producer.topic("results")
    }

    func run(partitions: UInt64 = 3, _ verdict: @escaping (UInt64, Int32) -> KafkaCode?) -> Run {
        Run(handle: handle, partitions: partitions, verdict: verdict)
    }
}

/// A topic of some partitions, chosen by the tag, and its time.
private struct Run {
    let handle: ProducerTopic
    let partitions: UInt64
    /// Why the broker refuses a record; `nil`: it does not.
    var verdict: (UInt64, Int32) -> KafkaCode?
    /// Partitions that report nothing, neither of records by themselves nor of others.
    var isSilent: (Int32) -> Bool = { _ in false }
    /// Under way by themselves, without a report.
    private(set) var silent: [UInt64] = []
    /// Among others.
    private var silentAmongOthers: [UInt64] = []
    var topic = TargetTopic("results")
    /// By the order of acknowledgement.
    var written: [UInt64] = []
    /// Given away.
    var rejected: [UInt64] = []
    var reduced: [UInt64] = []
    /// Whether a record that is given up is written in its reduced form, which nothing replaces.
    var isDeadLetter = false
    /// Records written by themselves, and batches.
    var tries = 0
    private var nowNs: Int64 = 0
    /// Waits for the topic, as it does at the machine.
    private var waiting: [UInt64] = []

    init(handle: ProducerTopic, partitions: UInt64, verdict: @escaping (UInt64, Int32) -> KafkaCode?) {
        self.handle = handle
        self.partitions = partitions
        self.verdict = verdict
    }

    func record(_ tag: UInt64) -> UndeliveredRecord {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        return UndeliveredRecord(
            copying: none, none, headers: UnsafeBufferPointer(start: nil, count: 0), to: handle, tag: tag, code: .none)
    }

    private func partition(_ tag: UInt64) -> Int32 { Int32(tag % partitions) }

    mutating func produce(_ tags: Range<UInt64>) { waiting += tags }

    mutating func go(seconds: Int64) {
        for _ in 0..<seconds * 10 {
            nowNs += 100_000_000
            turn()
        }
    }

    private mutating func turn() {
        let alone = silent.filter { !isSilent(partition($0)) }
        silent = silent.filter { isSilent(partition($0)) }
        for tag in alone { report(tag) }
        let heard = silentAmongOthers.filter { !isSilent(partition($0)) }
        silentAmongOthers = silentAmongOthers.filter { isSilent(partition($0)) }
        writeTogether(heard)
        if topic.isClear {
            writeTogether(waiting)
            waiting = []
        } else if topic.isOpen, !waiting.isEmpty {
            topic.take(record(waiting.removeFirst()), .alone, isNew: true)
        }
        var isDone = false
        while !isDone {
            var alone: [UInt64] = []
            var together: [UInt64] = []
            while let (refused, isSingle) = topic.next(nowNs: nowNs) {
                topic.wrote(isSingle: isSingle)
                if isSingle, isSilent(partition(refused.record.tag)) {
                    silent.append(refused.record.tag)
                    tries += 1
                } else if isSingle {
                    alone.append(refused.record.tag)
                } else {
                    together.append(refused.record.tag)
                }
            }
            for tag in alone { report(tag) }
            writeTogether(together)
            isDone = alone.isEmpty && together.isEmpty
        }
    }

    private mutating func writeTogether(_ all: [UInt64]) {
        silentAmongOthers += all.filter { isSilent(partition($0)) }
        let batch = all.filter { !isSilent(partition($0)) }
        if batch.isEmpty { return }
        tries += 1
        guard let code = batch.compactMap({ verdict($0, partition($0)) }).first else {
            written += batch
            return batch.forEach { _ in topic.noteTaken() }
        }
        for tag in batch {
            topic.take(record(tag), .alone)
            topic.block(code, nowNs: nowNs)
        }
    }

    private mutating func report(_ tag: UInt64) {
        tries += 1
        guard let code = verdict(tag, partition(tag)) else {
            topic.noteTaken()
            topic.written(tag)
            return written.append(tag)
        }
        guard topic.refused(record(tag), code, partition: partition(tag), nowNs: nowNs) else { return }
        if isDeadLetter, topic.form(of: tag) == .reduced {
            topic.refused(record(tag), code, partition: partition(tag), isLast: true, nowNs: nowNs)
            return
        }
        if isDeadLetter {
            reduced.append(tag)
            return topic.reduced(to: record(tag))
        }
        rejected.append(tag)
        topic.handedOn(tag)
    }
}

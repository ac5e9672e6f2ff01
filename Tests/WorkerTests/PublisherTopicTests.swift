import Kafka
import Testing

@testable import Worker

/// How a topic that refuses records is treated, without a broker.
struct PublisherTopicTests {
    private let second: Int64 = 1_000_000_000

    /// Never asked for anything; a record names its topic by one.
    private let handle: ProducerTopic

    init() throws {
        let producer = try Producer(ProducerSettings(cluster: ClusterSettings(bootstrapServers: "127.0.0.1:1")))
        handle = try producer.topic("results")
    }

    private func record(_ tag: UInt64, bytes: Int = 1) -> UndeliveredRecord {
        let value = [UInt8](repeating: 7, count: bytes)
        return value.withUnsafeBytes { value in
            UndeliveredRecord(
                copying: UnsafeRawBufferPointer(start: nil, count: 0), value,
                headers: UnsafeBufferPointer(start: nil, count: 0), to: handle, tag: tag, code: .none)
        }
    }

    /// Writes all that may be written; the tags, and whether each went by itself.
    private func write(_ topic: inout TargetTopic, at ns: Int64) -> [UInt64] {
        var tags: [UInt64] = []
        while let (refused, isSingle) = topic.next(nowNs: ns) {
            #expect(isSingle || refused.form == .together)
            topic.wrote(isSingle: isSingle)
            tags.append(refused.record.tag)
        }
        return tags
    }

    @Test func `A blocked topic is tried by one record at a time, with pauses that double to their limit`() throws {
        var topic = TargetTopic("results")
        for tag in 1...3 as ClosedRange<UInt64> { topic.take(record(tag), .alone) }
        topic.block(.topicAuthorizationFailed, nowNs: 0)
        #expect(!topic.isOpen)
        #expect(topic.cause?.code == .topicAuthorizationFailed)
        var now: Int64 = 0
        for pause in [1, 2, 4, 8, 16, 30, 30] as [Int64] {
            #expect(topic.nextTryNs == now + pause * second)
            #expect(write(&topic, at: now + pause * second - 1) == [])
            now += pause * second
            #expect(write(&topic, at: now) == [1])
            #expect(topic.nextTryNs == now + TargetTopic.silentNs, "a probe is waited for, but not for long")
            #expect(write(&topic, at: now + TargetTopic.silentNs - 1) == [])
            topic.refused(record(1), .topicAuthorizationFailed, partition: 0, nowNs: now)
        }
        #expect(topic.cause?.sinceNs == 0)
        #expect(topic.refusedCount == 3)
    }

    @Test func `When a probe is taken, all that was refused goes before anything new`() throws {
        var topic = TargetTopic("results")
        for tag in 1...3 as ClosedRange<UInt64> { topic.take(record(tag), .alone) }
        topic.block(.unknownTopicOrPartition, nowNs: 0)
        #expect(write(&topic, at: second) == [1])
        topic.written(1)
        #expect(!topic.isOpen && topic.cause == nil)
        #expect(write(&topic, at: second) == [2, 3])
        topic.written(2)
        #expect(!topic.isOpen)
        topic.written(3)
        #expect(topic.isOpen && topic.isIdle && topic.refusedBytes == 0)
    }

    @Test func `What a failing topic gives back while a probe is under way waits for the probe's answer`() throws {
        var topic = TargetTopic("results")
        topic.take(record(1), .alone)
        topic.block(.unknownTopicOrPartition, nowNs: 0)
        #expect(write(&topic, at: second) == [1])
        topic.take(record(2), .alone)
        topic.block(.unknownTopicOrPartition, nowNs: second)
        #expect(write(&topic, at: 2 * second) == [])
        topic.written(1)
        #expect(write(&topic, at: 2 * second) == [2])
    }

    @Test func `A topic that refuses while others are under way is not due before their reports`() throws {
        var topic = TargetTopic("results")
        for tag in 1...3 as ClosedRange<UInt64> { topic.take(record(tag), .alone) }
        topic.block(.unknownTopicOrPartition, nowNs: 0)
        #expect(write(&topic, at: second) == [1])
        topic.written(1)
        #expect(write(&topic, at: second) == [2, 3])
        topic.refused(record(2), .unknownTopicOrPartition, partition: 0, nowNs: second)
        #expect(topic.nextTryNs == 3 * second, "nothing can be written before the report of 3, or its silence")
        #expect(write(&topic, at: 3 * second - 1) == [])
        topic.refused(record(3), .unknownTopicOrPartition, partition: 0, nowNs: 3 * second - 1)
        #expect(topic.nextTryNs == 2 * second)
        #expect(write(&topic, at: 3 * second - 1) == [2])
    }

    @Test func `Records that come back while many are under way keep the order of their production`() throws {
        var topic = TargetTopic("results")
        for tag in 1...5 as ClosedRange<UInt64> { topic.take(record(tag), .alone) }
        topic.block(.topicAuthorizationFailed, nowNs: 0)
        #expect(write(&topic, at: second) == [1])
        topic.written(1)
        #expect(write(&topic, at: second) == [2, 3, 4, 5])
        topic.take(record(6), .alone)
        for tag in [2, 4, 3, 5] as [UInt64] {
            topic.refused(record(tag), .topicAuthorizationFailed, partition: 0, nowNs: second)
        }
        #expect(write(&topic, at: 9 * second) == [2])
        topic.written(2)
        #expect(write(&topic, at: 9 * second) == [3, 4, 5, 6])
    }

    @Test func `A record that is too large closes nothing, and is written in its reduced form`() throws {
        var topic = TargetTopic("results")
        topic.take(record(1), .alone)
        #expect(topic.isOpen && topic.nextTryNs == nil)
        #expect(write(&topic, at: 0) == [1])
        #expect(topic.form(of: 1) == .alone)
        topic.reduced(to: record(1))
        #expect(write(&topic, at: 0) == [1])
        #expect(topic.form(of: 1) == .reduced)
        topic.written(1)
        #expect(topic.isOpen && topic.isIdle)
    }

    @Test func `What a new producer dropped goes on among others, and one that was by itself again so`() throws {
        var topic = TargetTopic("results")
        topic.take(record(1), .together)
        topic.take(record(2), .alone)
        #expect(write(&topic, at: 0) == [1, 2])
        #expect(topic.form(of: 1) == nil && topic.form(of: 2) == .alone)
        topic.dropped(record(2))
        #expect(write(&topic, at: 0) == [2])
        topic.written(2)
        #expect(topic.isIdle)
    }

    @Test func `Above a number or a size of refused records nothing new is written until they are`() throws {
        var topic = TargetTopic("results")
        topic.take(record(1, bytes: TargetTopic.refusedBytesLimit), .alone)
        #expect(!topic.isOpen)
        #expect(write(&topic, at: 0) == [1])
        #expect(topic.isOpen)
        for tag in 1...UInt64(TargetTopic.refusedLimit) {
            #expect(topic.isOpen)
            topic.take(record(tag), .together)
        }
        #expect(!topic.isOpen)
        #expect(write(&topic, at: 0).count == TargetTopic.refusedLimit)
        #expect(topic.isOpen)
    }

    @Test func `While a topic is blocked, one more is tried beside each silent one`() throws {
        var topic = TargetTopic("results")
        for tag in 1...4 as ClosedRange<UInt64> { topic.take(record(tag), .alone) }
        topic.block(.topicAuthorizationFailed, nowNs: 0)
        #expect(write(&topic, at: second) == [1])
        #expect(write(&topic, at: 3 * second - 1) == [])
        #expect(write(&topic, at: 3 * second) == [2])
        #expect(topic.nextTryNs == 5 * second && topic.cause?.sinceNs == 0)
        topic.refused(record(2), .topicAuthorizationFailed, partition: 1, nowNs: 3 * second)
        #expect(topic.nextTryNs == 5 * second, "a refusal is followed by a pause as ever")
        #expect(write(&topic, at: 5 * second) == [2])
        topic.written(2)
        #expect(write(&topic, at: 5 * second) == [3, 4])
        topic.written(3)
        #expect(!topic.isOpen)
        topic.written(4)
        #expect(topic.isClear && !topic.isIdle && topic.awaitsReport, "the silent one is not waited for")
        topic.written(1)
        #expect(topic.isClear && topic.isIdle && topic.nextTryNs == nil)
    }

    @Test func `The report of a silent record counts as that of any other`() throws {
        var topic = TargetTopic("results")
        for tag in 1...2 as ClosedRange<UInt64> { topic.take(record(tag), .alone) }
        topic.block(.topicAuthorizationFailed, nowNs: 0)
        #expect(write(&topic, at: second) == [1])
        #expect(write(&topic, at: 3 * second) == [2])
        topic.written(1)
        #expect(topic.cause == nil && !topic.isOpen)
        #expect(write(&topic, at: 5 * second) == [], "2 is silent for long")
        #expect(topic.isClear)
        topic.refused(record(2), .topicAuthorizationFailed, partition: 1, nowNs: 6 * second)
        #expect(!topic.isOpen && topic.refusedCount == 1 && topic.cause?.sinceNs == 6 * second)
        #expect(topic.nextTryNs == 7 * second)
    }

    @Test func `Silent records have a limit of their own, in number and in size`() throws {
        var topic = TargetTopic("results")
        let half = TargetTopic.refusedBytesLimit / 2
        for tag in 1...4 as ClosedRange<UInt64> { topic.take(record(tag, bytes: half), .alone) }
        #expect(write(&topic, at: 0) == [1, 2], "the size counts those that are under way")
        #expect(write(&topic, at: 10 * second) == [] && topic.nextTryNs == nil)
        topic.written(1)
        #expect(write(&topic, at: 10 * second) == [3])
        for tag in [2, 3] as [UInt64] { topic.written(tag) }
        #expect(write(&topic, at: 10 * second) == [4])
        topic.written(4)
        #expect(topic.isIdle)
        let count = UInt64(TargetTopic.refusedLimit)
        for tag in 1...count + 10 { topic.take(record(tag), .alone) }
        var now = 20 * second
        var tags: [UInt64] = []
        for _ in 0..<100 {
            tags += write(&topic, at: now)
            now += TargetTopic.silentNs
        }
        #expect(tags == Array(1...count))
        topic.written(7)
        #expect(write(&topic, at: now) == [count + 1])
    }

    @Test func `A topic with nothing left to try is open again: the next record shows`() throws {
        var topic = TargetTopic("tier")
        topic.take(record(1), .alone)
        topic.block(.unknownTopicOrPartition, nowNs: 0)
        #expect(write(&topic, at: second) == [1])
        topic.handedOn(1)
        #expect(topic.isOpen)
    }

    @Test func `What comes back to a topic that pauses is tried at once where it may be the record's own fault`() throws
    {
        var topic = TargetTopic("results")
        topic.take(record(1), .together)
        topic.block(.topicAuthorizationFailed, nowNs: 0)
        #expect(topic.nextTryNs == second)
        topic.take(record(2), .together)
        topic.block(.invalidRecord, nowNs: second / 2)
        #expect(write(&topic, at: second / 2) == [1, 2])
    }

    @Test func `The pause after records that were tried together begins with the last of their reports`() throws {
        var topic = TargetTopic("results")
        for tag in 1...3 as ClosedRange<UInt64> { topic.take(record(tag), .together) }
        topic.block(.policyViolation, nowNs: 0)
        #expect(write(&topic, at: 0) == [1, 2, 3])
        for (tag, seconds) in [(1, 1), (2, 1), (3, 9)] as [(UInt64, Int64)] {
            topic.refused(record(tag), .policyViolation, partition: 0, nowNs: seconds * second)
        }
        #expect(topic.nextTryNs == 11 * second)
    }

    /// A topic that refused a record by itself once, after it had taken another.
    private func topicWithOneApart(_ record: UndeliveredRecord) -> TargetTopic {
        var topic = TargetTopic("results")
        topic.take(record, .alone)
        #expect(write(&topic, at: 0) == [record.tag])
        topic.noteTaken()
        topic.refused(record, .invalidRecord, partition: 0, nowNs: 0)
        return topic
    }

    @Test func `A record that stands apart and finds no room is what its topic is tried with`() throws {
        var topic = topicWithOneApart(record(1))
        #expect(topic.isClear && topic.nextTryNs == second)
        let named = topic.next(nowNs: second)
        #expect(named?.isSingle == true)
        topic.couldNotWrite(.transport, nowNs: second)
        #expect(!topic.isClear && topic.nextTryNs == 2 * second)
        #expect(write(&topic, at: 2 * second) == [1])
    }

    @Test func `Records that stand apart count for what may be refused at once`() throws {
        let topic = topicWithOneApart(record(1, bytes: TargetTopic.refusedBytesLimit))
        #expect(!topic.isOpen)
    }

    @Test func `A smaller form of a record that stands apart stands apart`() throws {
        var topic = topicWithOneApart(record(1))
        var now: Int64 = 0
        for isItsOwn in [false, true] {
            now += 10 * second
            #expect(write(&topic, at: now) == [1])
            topic.noteTaken()
            let verdict = topic.refused(record(1), .invalidRecord, partition: 0, nowNs: now)
            #expect(verdict == isItsOwn)
        }
        topic.reduced(to: record(1))
        #expect(write(&topic, at: now) == [1])
        topic.refused(record(1), .invalidRecord, partition: 0, nowNs: now)
        #expect(topic.isClear, "nothing was taken since, and it blocks nothing")
    }
}

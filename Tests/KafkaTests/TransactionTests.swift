import Kafka
import TestSupport
import Testing

/// A transactional producer and the topic it writes to.
private final class Transactor {
    let producer: Producer
    let topic: ProducerTopic
    private let group: String
    var codes: [KafkaCode] = []

    /// Creates a producer with the group's transactional id, which fences an earlier one.
    init(_ cluster: Cluster) throws {
        group = cluster.group
        producer = try Producer(
            ProducerSettings(cluster: ClusterSettings(bootstrapServers: cluster.servers), transactionalID: group))
        topic = try producer.topic(cluster.topic)
        while true {
            do throws(KafkaError) {
                try producer.initializeTransactions(timeoutMs: 10_000)
                return
            } catch {
                guard error.isPassing else { throw error }
            }
        }
    }

    func commit(_ entries: CommitEntry...) throws {
        try producer.addOffsets(entries, group: group)
        try producer.commitTransaction()
    }

    /// Begins a transaction and writes its records.
    func write(_ texts: [String]) throws {
        try producer.beginTransaction()
        for text in texts {
            let code = Array(text.utf8).withUnsafeBytes {
                producer.produce(
                    to: topic, key: UnsafeRawBufferPointer(start: nil, count: 0), value: $0, headers: [], tag: 0)
            }
            #expect(code == .none)
        }
        let left = producer.flush(timeoutMs: 20_000, report: { codes.append($0.code) }, event: { _ in })
        #expect(left == 0)
    }
}

/// The records of one partition that an `OffsetReader` returned, and the ends and errors it reported.
private struct Found: Equatable {
    var offsets: [Int64] = []
    var texts: [String] = []
    var ends: [Int64] = []
    var errors: [KafkaCode] = []
}

extension OffsetReader {
    /// Reads until the reader reports the end of the log or an error.
    fileprivate func readAll(_ partition: TopicPartition, from offset: Int64) throws -> Found {
        try start(partition, at: offset)
        defer { stop(partition) }
        var found = Found()
        while found.ends.isEmpty, found.errors.isEmpty {
            _ = next(timeoutMs: 100) { _, message in
                found.offsets.append(message.offset)
                found.texts.append(String(decoding: message.value, as: UTF8.self))
            } trouble: { _, error, offset in
                if error.code == .partitionEnd { found.ends.append(offset) } else { found.errors.append(error.code) }
            }
        }
        return found
    }

    /// Reads from the beginning until at least `count` records are visible. Readers may see a transaction only some
    /// time after its commit has succeeded.
    fileprivate func readCommitted(_ count: Int, of partition: TopicPartition) throws -> Found {
        while true {
            let found = try readAll(partition, from: 0)
            if found.texts.count >= count { return found }
        }
    }
}

@Suite(.waiting, .timeLimit(.minutes(5))) struct TransactionTests {
    private func reader(_ cluster: Cluster, group: String? = nil) throws -> OffsetReader {
        let reader = try OffsetReader(
            ClusterSettings(bootstrapServers: cluster.servers), group: group, fetchKilobytes: 64)
        let topics = try reader.topics(named: [cluster.topic], timeoutMs: 10_000)
        #expect(topics[cluster.topic]?.code == KafkaCode.none)
        return reader
    }

    private func committed(_ reader: OffsetReader, _ partition: TopicPartition) throws -> CommittedOffset? {
        while true {
            if let found = try? reader.committed([partition], timeoutMs: 5_000).first, found.code == .none {
                return found
            }
        }
    }

    @Test(.needsBroker) func `A transaction commits its records and offsets together, or neither`() throws {
        let cluster = try Cluster(.broker)
        let reader = try reader(cluster, group: cluster.group)
        let partition = cluster.partition(0)
        let transactor = try Transactor(cluster)
        try transactor.write(["a", "b"])
        // Records of an open transaction are invisible.
        #expect(try reader.readAll(partition, from: 0) == Found(ends: [0]))
        try transactor.commit(CommitEntry(partition, offset: 7, metadata: Array("here".utf8)))
        #expect(try reader.readCommitted(2, of: partition).texts == ["a", "b"])
        let first = try committed(reader, partition)
        #expect(first?.offset == 7 && first?.metadata == Array("here".utf8))

        try transactor.write(["c"])
        let successor = try Transactor(cluster)
        try successor.write(["d"])
        try successor.commit(CommitEntry(partition, offset: 9))
        let all = try reader.readCommitted(3, of: partition)
        #expect(all.texts == ["a", "b", "d"])
        // Transaction markers occupy offsets, and the log end lies after the last marker.
        #expect(all.offsets == [0, 1, 5] && all.ends == [7] && all.errors == [])
        #expect(try reader.readAll(partition, from: 2).offsets == [5])
        #expect(try committed(reader, partition)?.offset == 9)
        #expect(try reader.bounds(of: [partition], timeoutMs: 10_000) == [partition: 0..<7])
        // A transaction may contain only offsets.
        try successor.producer.beginTransaction()
        try successor.commit(CommitEntry(partition, offset: 10))
        #expect(try committed(reader, partition)?.offset == 10)
    }

    @Test(.needsBroker) func `A producer with the same transactional id fences the earlier producer`() throws {
        let cluster = try Cluster(.broker)
        let reader = try reader(cluster, group: cluster.group)
        let partition = cluster.partition(0)
        let first = try Transactor(cluster)
        try first.write(["lost"])
        let second = try Transactor(cluster)
        let error = #expect(throws: KafkaError.self) { try first.commit(CommitEntry(partition, offset: 3)) }
        #expect(error?.code.isFenced == true && error?.isPassing == false, "\(error.map { "\($0)" } ?? "")")
        try second.write(["kept"])
        try second.commit(CommitEntry(partition, offset: 5))
        #expect(try reader.readCommitted(1, of: partition).texts == ["kept"])
        #expect(try committed(reader, partition)?.offset == 5)
    }

    @Test(.needsBroker)
    func `A record that is too large fails its transaction, and a new producer can continue`() throws {
        let cluster = try Cluster(.broker, configuration: [KafkaProperty("max.message.bytes", "2000")])
        let reader = try reader(cluster)
        let transactor = try Transactor(cluster)
        let noise = String((0..<8_000).map { _ in Character(Unicode.Scalar(UInt8.random(in: 0x21...0x7E))) })
        try transactor.write([noise])
        #expect(transactor.codes == [.messageTooLarge])
        let error = #expect(throws: KafkaError.self) {
            try transactor.commit(CommitEntry(cluster.partition(0), offset: 3))
        }
        #expect(error?.isPassing == false && error?.code.isFenced == false, "\(error.map { "\($0)" } ?? "")")
        let successor = try Transactor(cluster)
        try successor.write(["small"])
        try successor.commit(CommitEntry(cluster.partition(0), offset: 4))
        #expect(try reader.readCommitted(1, of: cluster.partition(0)).texts == ["small"])
    }
}

@Suite(.waiting, .timeLimit(.minutes(5))) struct OffsetReaderTests {
    @Test(.needsBroker)
    func `After each seek the reader delivers the record at the new offset, and none from the previous position`()
        throws
    {
        let cluster = try Cluster(.broker, partitions: 3)
        let (writer, topic) = try Writer.connected(cluster)
        for number in 0..<6_000 as Range<Int> {
            let value = Array("\(number / 3)".utf8)
            #expect(
                writer.produce(to: topic, partition: Int32(number % 3), key: nil, value: value, tag: UInt64(number))
                    == .none)
        }
        writer.flush()
        let reader = try OffsetReader(ClusterSettings(bootstrapServers: cluster.servers), fetchKilobytes: 64)
        var generator = SystemRandomNumberGenerator()
        var wanted: [TopicPartition: Int64] = [:]
        func go(_ partition: TopicPartition) throws {
            wanted[partition] = Int64.random(in: 0..<2_000, using: &generator)
            try reader.start(partition, at: wanted[partition] ?? 0)
        }
        for number in 0..<3 as Range<Int32> { try go(cluster.partition(number)) }
        for _ in 0..<600 {
            var came: (TopicPartition, Int64)?
            while came == nil {
                _ = reader.next(timeoutMs: 100) {
                    came = ($0, $1.offset)
                } trouble: {
                    Issue.record("\($0), \($2): \($1)")
                }
            }
            let (partition, offset) = try #require(came)
            #expect(offset == wanted[partition])
            // The next offset may lie inside or outside the prefetched records. Both must work.
            try go(partition)
        }
    }

    @Test(.needsBroker) func `The reader reports log ends, offsets out of range and unknown topics`() throws {
        let cluster = try Cluster(.broker)
        let reader = try OffsetReader(ClusterSettings(bootstrapServers: cluster.servers), fetchKilobytes: 64)
        #expect(try reader.readAll(cluster.partition(0), from: 0) == Found(ends: [0]))
        #expect(try reader.readAll(cluster.partition(0), from: 5) == Found(errors: [.autoOffsetReset]))
        // Reading succeeds once the topic has a record.
        let writer = try Writer(cluster.servers)
        #expect(writer.produce(to: try writer.producer.topic(cluster.topic), key: nil, value: [0x61], tag: 1) == .none)
        writer.flush()
        #expect(
            try reader.readAll(cluster.partition(0), from: 0)
                == Found(offsets: [0], texts: ["a"], ends: [1]))
        let names = [cluster.topic, "\(cluster.topic).none"]
        let told = try reader.topics(named: names, timeoutMs: 10_000)
        #expect(told[names[0]]?.partitions == 1 && told[names[1]]?.code.isUnknownTopic == true)
        let later = try reader.offsets(of: [cluster.partition(0)], fromMs: 4_000_000_000_000, timeoutMs: 10_000)
        #expect(later.isEmpty)
        #expect(
            try reader.offsets(of: [cluster.partition(0)], fromMs: 1, timeoutMs: 10_000) == [cluster.partition(0): 0])
    }
}

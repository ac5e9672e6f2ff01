import CRdkafka
import Glibc

package struct TopicPartition: Hashable, Sendable, CustomStringConvertible {
    package let topic: String
    package let partition: Int32

    package init(_ topic: String, _ partition: Int32) {
        self.topic = topic
        self.partition = partition
    }

    package var description: String { "\(topic)/\(partition)" }
}

package struct CommittedOffset: Hashable, Sendable {
    package let partition: TopicPartition
    /// The committed offset (the next one to read), or `nil` if the group has committed none.
    package let offset: Int64?
    package let metadata: [UInt8]
    /// The error that the broker returned instead of this partition's committed offset, or `.none`.
    package let code: KafkaCode
}

package struct CommitEntry: Hashable, Sendable {
    package let partition: TopicPartition
    package let offset: Int64
    /// The metadata to commit with the offset. Use printable ASCII: librdkafka before 2.6.1 returns garbage if metadata
    /// contains NUL. By default, brokers reject metadata of more than 4,096 bytes.
    package let metadata: [UInt8]

    package init(_ partition: TopicPartition, offset: Int64, metadata: [UInt8] = []) {
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
    }
}

@safe struct PartitionList: ~Copyable {
    let raw: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>

    init(capacity: Int) {
        unsafe raw = rd_kafka_topic_partition_list_new(Int32(clamping: capacity))
    }

    init(_ partitions: [TopicPartition]) {
        self.init(capacity: partitions.count)
        for partition in partitions { add(partition) }
    }

    init(_ entries: [CommitEntry]) {
        self.init(capacity: entries.count)
        for entry in entries { add(entry.partition, offset: entry.offset, metadata: entry.metadata) }
    }

    deinit { unsafe rd_kafka_topic_partition_list_destroy(raw) }

    func add(_ partition: TopicPartition, offset: Int64? = nil, metadata: [UInt8] = []) {
        // librdkafka copies the topic's name (rdkafka.h).
        let element = unsafe rd_kafka_topic_partition_list_add(raw, partition.topic, partition.partition)
        guard let element = unsafe element else { return }
        if let offset { unsafe element.pointee.offset = offset }
        // The list frees `metadata` with free(3) (rd_kafka_topic_partition_list_destroy).
        guard !metadata.isEmpty, let copy = unsafe malloc(metadata.count) else { return }
        unsafe metadata.withUnsafeBytes { unsafe copy.copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
        unsafe element.pointee.metadata = copy
        unsafe element.pointee.metadata_size = metadata.count
    }
}

extension UnsafeMutablePointer<rd_kafka_topic_partition_list_t> {
    var elements: UnsafeBufferPointer<rd_kafka_topic_partition_t> {
        unsafe UnsafeBufferPointer(start: pointee.elems, count: Int(pointee.cnt))
    }
}

extension rd_kafka_topic_partition_t {
    var identity: TopicPartition { unsafe TopicPartition(String(cString: topic), partition) }

    /// The element as a committed offset. A negative (logical) offset means that the group has committed none.
    var committed: CommittedOffset {
        let bytes = unsafe UnsafeRawBufferPointer(start: metadata, count: metadata == nil ? 0 : metadata_size)
        return unsafe CommittedOffset(
            partition: identity, offset: offset >= 0 ? offset : nil, metadata: Array(bytes), code: KafkaCode(err))
    }
}

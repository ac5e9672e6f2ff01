internal import CLinux
internal import Kafka
internal import Observability

/// What the readers of one group's partitions have in common: the client they read from, the place where a crash would
/// be told, the records that are not to be looked at, and whom they tell what they find. Core thread.
final class ReadingContext {
    let consumer: Consumer
    let logger: Logger
    let problems: ReadingProblems
    /// Where it reads, for whoever dies there.
    let place = UnsafeMutablePointer<CrashPlace>.allocate(capacity: 1)
    /// Records that are not to be looked at: the worker died at them.
    var condemned: Set<CrashHistory.Place> = []
    /// The log of a partition is another one.
    var onAnotherLog: (TopicPartition) -> Void = { _ in }
    /// Reading went on beyond so many offsets that were gone before they were read.
    var onSkipped: (TopicPartition, Int64) -> Void = { _, _ in }
    /// How a log stands is to be asked, for `GroupReader.take(_:_:now:)`.
    var onLogDoubted: (TopicPartition) -> Void = { _ in }

    init(_ consumer: Consumer, problems: ReadingProblems, logger: Logger) {
        self.consumer = consumer
        self.problems = problems
        self.logger = logger
        place.initialize(to: CrashPlace())
    }

    deinit { place.deallocate() }

    /// Other records stand at the offsets of a log that is another one.
    func acquit(_ partition: TopicPartition) {
        condemned = condemned.filter { $0.topic != partition.topic || $0.partition != partition.partition }
        onAnotherLog(partition)
    }

    func isCondemned(_ partition: TopicPartition, _ offset: Int64) -> Bool {
        condemned.contains(
            CrashHistory.Place(topic: partition.topic, partition: partition.partition, offset: offset))
    }

    /// Where that comes to nothing, what comes next is not what is to be read: it is done again then.
    func seek(_ partition: TopicPartition, to offset: Int64) {
        do throws(KafkaError) {
            try consumer.seek(partition, to: offset)
        } catch {
            logger.warning(
                .kafka, "a partition cannot be read on at another offset; trying again", about: "\(partition)",
                ["partition": "\(partition)", "offset": "\(offset)", "error": "\(error.text)"])
        }
    }

    /// Where the partition's log ends, as the last fetch told; -1: not known yet.
    func logEnd(of partition: TopicPartition) -> Int64 { consumer.watermarks(of: partition).high }
}

internal import Delivery
internal import EventLoop
internal import Kafka

/// The consumer groups of a worker, of the request topics and of the retry topics: what each reads goes into the
/// machine, and what is settled is committed for it. Core thread.
struct ConsumerGroups: RequestSource, OffsetSink {
    typealias Failure = Never

    let readers: [GroupReader]
    private let committers: [OffsetCommitter]
    private let publisher: RecordPublisher

    init(requests: GroupReader, retries: GroupReader, publisher: RecordPublisher) {
        readers = [requests, retries]
        committers = [
            OffsetCommitter(.requests, name: requests.name, logger: requests.logger),
            OffsetCommitter(.retries, name: retries.name, logger: retries.logger),
        ]
        self.publisher = publisher
    }

    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) -> DeliveryTime {
        for (reader, committer) in zip(readers, committers) {
            reader.markReadable()
            reader.serve(&machine, now: now) { reply, machine in committer.take(reply, &machine, now: now) }
        }
        let after = LoopTime.read()
        return DeliveryTime(ns: after.monotonicNs, wallMs: after.wallMs)
    }

    func read(into machine: inout DeliveryMachine, now: DeliveryTime) -> Bool {
        var hasMore = false
        for reader in readers where !reader.isLeaving {
            if reader.read(into: &machine, now: now, deadLetters: publisher) { hasMore = true }
        }
        return hasMore
    }

    func nextDeadlineNs(now: DeliveryTime) -> Int64? {
        readers.lazy.compactMap { $0.nextDeadlineNs(now: now) }.min()
    }

    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        for (reader, committer) in zip(readers, committers) {
            committer.commit(&machine, now: now, partitionOf: reader.partition) { entries, tag throws(KafkaError) in
                try reader.consumer.commit(entries, tag: tag)
            }
        }
    }

    var fatalError: KafkaError? { readers.lazy.compactMap(\.fatalError).first }

    /// Of each group whose commit has no reply yet, although its coordinator answers, its id and the commit's tag.
    var missingReplies: [(subject: String, mark: UInt64)] {
        zip(readers, committers).compactMap { reader, committer in
            guard reader.brokers.reach == .answered, !reader.brokers.isCoordinatorSilent else { return nil }
            return committer.missingReply.map { ("a commit of group \(reader.name) has no reply", $0) }
        }
    }

    func problems(now: DeliveryTime) -> [Problem] {
        readers.flatMap { $0.problems(now) }
            + zip(readers, committers).flatMap { reader, committer in
                committer.problems(now: now) { reader.isAssigned($0) }
            }
    }
}

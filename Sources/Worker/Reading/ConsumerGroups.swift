internal import Delivery
internal import EventLoop
internal import Kafka

/// The two groups of a worker, of the request topics and of the retry topics: what each reads goes into the machine,
/// and what is settled is committed for it. Core thread.
struct ConsumerGroups: RequestSource, OffsetSink {
    typealias Failure = Never

    /// Of the retry topics.
    let retries: GroupReader
    /// In the same order: of the request topics, of the retry topics.
    let readers: [GroupReader]
    let committers: [OffsetCommitter]
    /// Takes the dead letters of what is read.
    let publisher: RecordPublisher

    /// - Parameter committers: of the request topics, of the retry topics.
    init(
        requests: GroupReader, retries: GroupReader, committers: [OffsetCommitter], publisher: RecordPublisher
    ) {
        self.retries = retries
        readers = [requests, retries]
        self.committers = committers
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
            let more = reader.read(into: &machine, now: now, deadLetters: publisher.deadLetters(now: now))
            if more { hasMore = true }
        }
        return hasMore
    }

    func nextDeadlineNs(now: DeliveryTime) -> Int64? {
        var deadlineNs: Int64?
        for reader in readers {
            guard let next = reader.nextDeadlineNs(now: now) else { continue }
            deadlineNs = min(deadlineNs ?? next, next)
        }
        return deadlineNs
    }

    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        for (reader, committer) in zip(readers, committers) { committer.commit(&machine, reader, now: now) }
    }

    /// Why one of them is of no use any more.
    var fatalError: KafkaError? { readers.lazy.compactMap(\.fatalError).first }

    /// The trouble of partitions that are not ours any more is nobody's.
    func keepHouse() {
        for (reader, committer) in zip(readers, committers) { committer.keepOnly { reader.isAssigned($0) } }
    }

    /// What keeps them from reading or committing now.
    func problems(now: DeliveryTime) -> [Problem] {
        readers.flatMap { $0.problems(now) } + committers.flatMap { $0.problems(now: now) }
    }
}

internal import Delivery
internal import EventLoop
internal import Kafka

/// The consumer groups of a worker, of the request topics and of the retry topics: what each reads goes into the
/// machine, and what is settled is committed for it. Core thread.
struct ConsumerGroups: RequestSource, OffsetSink {
    typealias Failure = Never

    /// The readers of the request topics and of the retry topics.
    let readers: [GroupReader]
    let publisher: RecordPublisher

    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) -> DeliveryTime {
        for reader in readers {
            reader.markReadable()
            reader.serve(&machine, now: now)
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
        for reader in readers { reader.commit(&machine, now: now) }
    }

    var fatalError: KafkaError? { readers.lazy.compactMap(\.fatalError).first }

    /// Of each group whose commit has no reply yet, although its coordinator answers, its id and the commit's tag.
    var missingReplies: [(subject: String, mark: UInt64)] {
        readers.compactMap { reader in
            guard reader.brokers.reach == .answered, !reader.brokers.isCoordinatorSilent else { return nil }
            return reader.committer.missingReply.map { ("a commit of group \(reader.name) has no reply", $0) }
        }
    }

    func problems(now: DeliveryTime) -> [Problem] {
        readers.flatMap { $0.problems(now) }
            + readers.flatMap { reader in reader.committer.problems(now: now) { reader.isAssigned($0) } }
    }
}

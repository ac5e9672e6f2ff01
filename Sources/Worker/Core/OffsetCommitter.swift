internal import Delivery
internal import Kafka
internal import Observability

/// Sends the machine's commits to the groups they belong to, and brings the replies back. Core thread.
final class OffsetCommitter {
    private struct Pending {
        let partition: TopicPartition
        let readerIndex: Int
        var outcome: CommitOutcome?
    }

    private let logger: Logger
    private var pending: [Pending] = []
    private var tag: UInt64 = 0

    init(logger: Logger) { self.logger = logger }

    /// Commits what is due.
    func commit(_ machine: inout DeliveryMachine, readers: [GroupReader], now: DeliveryTime) {
        guard pending.isEmpty else { return }
        let entries = machine.takeCommit(now: now)
        guard !entries.isEmpty else { return }
        tag += 1
        var batches: [[Kafka.CommitEntry]] = Array(repeating: [], count: readers.count)
        for entry in entries {
            var found: (TopicPartition, Int)?
            for (index, reader) in readers.enumerated() where found == nil {
                if let partition = reader.partition(of: entry.partition) { found = (partition, index) }
            }
            guard let (partition, index) = found else {
                pending.append(Pending(partition: TopicPartition("", -1), readerIndex: -1, outcome: .refused))
                continue
            }
            pending.append(Pending(partition: partition, readerIndex: index))
            batches[index].append(
                Kafka.CommitEntry(partition, offset: entry.offset, metadata: Array(entry.metadata)))
        }
        for (index, batch) in batches.enumerated() where !batch.isEmpty {
            do throws(KafkaError) {
                try readers[index].consumer.commit(batch, tag: tag)
            } catch {
                note(error.code)
                for place in pending.indices where pending[place].readerIndex == index {
                    pending[place].outcome = .refused
                }
            }
        }
        finish(&machine, now)
    }

    /// Takes the reply to one group's part.
    func take(_ reply: CommitReply, readerIndex: Int, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        guard reply.tag == tag else { return }
        for place in pending.indices where pending[place].readerIndex == readerIndex {
            let code = reply.results.first { $0.partition == pending[place].partition }?.code ?? reply.code
            switch code {
            case .none:
                pending[place].outcome = .acknowledged
            case .offsetMetadataTooLarge:
                pending[place].outcome = .metadataTooLarge
            default:
                pending[place].outcome = .refused
                note(code)
            }
        }
        finish(&machine, now)
    }

    private func note(_ code: KafkaCode) {
        if code.isRebalance {
            logger.debug(.kafka, "a commit came between a rebalance", ["error": "\(code.name)"])
        } else {
            logger.warning(.kafka, "a commit failed; committing again", about: code.name, ["error": "\(code.text)"])
        }
    }

    private func finish(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        guard !pending.isEmpty, pending.allSatisfy({ $0.outcome != nil }) else { return }
        let outcomes = pending.map { $0.outcome! }
        pending.removeAll(keepingCapacity: true)
        machine.commitFinished(outcomes, now: now)
    }
}

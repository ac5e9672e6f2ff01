internal import Delivery
internal import Kafka
internal import Observability

/// Sends the machine's commits of one group, and brings the replies back; at most one is in flight. Core thread.
final class OffsetCommitter {
    private let group: CommitGroup
    private let logger: Logger
    /// The partitions of the commit in flight, in the machine's order; `nil`: given up meanwhile.
    private var pending: [TopicPartition?] = []
    private var tag: UInt64 = 0

    init(_ group: CommitGroup, logger: Logger) {
        self.group = group
        self.logger = logger
    }

    /// Commits what is due.
    func commit(_ machine: inout DeliveryMachine, _ reader: GroupReader, now: DeliveryTime) {
        guard pending.isEmpty else { return }
        let entries = machine.takeCommit(of: group, now: now)
        guard !entries.isEmpty else { return }
        tag += 1
        var batch: [Kafka.CommitEntry] = []
        for entry in entries {
            let partition = reader.partition(of: entry.partition)
            pending.append(partition)
            guard let partition else { continue }
            batch.append(Kafka.CommitEntry(partition, offset: entry.offset, metadata: Array(entry.metadata)))
        }
        do throws(KafkaError) {
            guard !batch.isEmpty else { return finish(nil, &machine, now) }
            try reader.consumer.commit(batch, tag: tag)
        } catch {
            note(error.code)
            finish(nil, &machine, now)
        }
    }

    /// Takes a reply to this group's commits.
    func take(_ reply: CommitReply, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        guard reply.tag == tag, !pending.isEmpty else { return }
        let outcomes = pending.map { partition -> CommitOutcome in
            guard let partition else { return .refused }
            let code = reply.results.first { $0.partition == partition }?.code ?? reply.code
            switch code {
            case .none: return .acknowledged
            case .offsetMetadataTooLarge: return .metadataTooLarge
            default:
                note(code)
                return .refused
            }
        }
        finish(outcomes, &machine, now)
    }

    private func note(_ code: KafkaCode) {
        if code.isRebalance {
            logger.debug(.kafka, "a commit came between a rebalance", ["error": "\(code.name)"])
        } else {
            logger.warning(.kafka, "a commit failed; committing again", about: code.name, ["error": "\(code.text)"])
        }
    }

    /// - Parameter outcomes: `nil`: refused as a whole.
    private func finish(_ outcomes: [CommitOutcome]?, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        pending.removeAll(keepingCapacity: true)
        machine.commitFinished(of: group, outcomes, now: now)
    }
}

internal import Kafka

/// The counters of a replay job. The metadata of the job's offset commits contains their values in this order.
package enum ReplayOutcome: CaseIterable, Sendable {
    case matched
    /// An earlier result or dead letter belongs to the same notification.
    case repeated
    case produced
    /// The notification was not requested again, because its `apns-expiration` has passed.
    case expired
    /// The request no longer exists, or another record is at its offset.
    case gone
    case unreadable
    /// The notification cannot be requested again, or the broker refused the new request.
    case refused
}

package typealias ReplayCounts = [ReplayOutcome: Int64]

/// The progress of a job in one partition of the result topic or the dead-letter topic.
struct PartitionProgress: Hashable, Sendable {
    /// The log end offset when the job began. Results of the job's new requests are at or above this offset.
    let end: Int64
    /// The next offset to read, as committed by the job's group.
    var position: Int64
    var counts: ReplayCounts = [:]

    mutating func move(to offset: Int64) { position = max(position, min(offset, end)) }
}

/// A replay job. The job's progress in each partition is the offset that the job's consumer group has committed. The
/// metadata of these commits contains everything else that a resumed run needs.
struct ReplayJob: Equatable {
    private let fingerprint: String
    /// The start of the selected time range, in milliseconds since the epoch. A relative time becomes an absolute time
    /// when the job begins.
    let sinceMs: Int64?
    let untilMs: Int64?
    /// The progress by partition, without partitions that were added after the job began.
    var partitions: [TopicPartition: PartitionProgress]

    private static let version = "replay4"

    init(_ order: ReplayOrder, _ ranges: [TopicPartition: Range<Int64>]) {
        fingerprint = order.fingerprint
        sinceMs = order.selection.sinceMs
        untilMs = order.selection.untilMs
        partitions = ranges.mapValues { PartitionProgress(end: $0.upperBound, position: $0.lowerBound) }
    }

    /// Restores a job from its group's commits. Returns `nil` if the job has not begun.
    init?(_ order: ReplayOrder, _ committed: [CommittedOffset]) throws(CommandFailure) {
        var job: ReplayJob?
        for commit in committed where commit.offset != nil {
            guard let part = ReplayJob(commit) else {
                throw CommandFailure(
                    "group \(order.group) has a commit for \(commit.partition) that is not from a replay: choose another --name"
                )
            }
            guard part.fingerprint == order.fingerprint else {
                throw CommandFailure(
                    "group \(order.group) belongs to a job with other conditions: choose another --name, or repeat the original conditions"
                )
            }
            if job == nil { job = part }
            job?.partitions.merge(part.partitions) { $1 }
        }
        guard let job else { return nil }
        self = job
    }

    /// Restores the part of a job that one partition's commit contains. Returns `nil` if the commit is not from a
    /// replay.
    private init?(_ commit: CommittedOffset) {
        let words = String(decoding: commit.metadata, as: UTF8.self).split(separator: " ")
        let numbers = words.dropFirst(2).compactMap { Int64($0) }
        guard words.first == Self.version[...], numbers.count == 3 + ReplayOutcome.allCases.count,
            words.count == 2 + numbers.count, let offset = commit.offset, offset <= numbers[2]
        else { return nil }
        fingerprint = String(words[1])
        sinceMs = numbers[0] < 0 ? nil : numbers[0]
        untilMs = numbers[1] < 0 ? nil : numbers[1]
        var progress = PartitionProgress(end: numbers[2], position: offset)
        for (kind, count) in zip(ReplayOutcome.allCases, numbers[3...]) where count != 0 {
            progress.counts[kind] = count
        }
        partitions = [commit.partition: progress]
    }

    /// Returns the commits for all partitions whose progress has changed since an earlier state of the job.
    func entries(since earlier: ReplayJob?) -> [CommitEntry] {
        partitions.filter { earlier?.partitions[$0.key] != $0.value }.map { partition, progress in
            let counts = ReplayOutcome.allCases.map { progress.counts[$0, default: 0] }
            let numbers = [sinceMs ?? -1, untilMs ?? -1, progress.end] + counts
            let words = [Self.version, fingerprint] + numbers.map { "\($0)" }
            return CommitEntry(partition, offset: progress.position, metadata: Array(words.joined(separator: " ").utf8))
        }
    }

    var isDone: Bool { partitions.values.allSatisfy { $0.position >= $0.end } }

    var counts: ReplayCounts { partitions.values.reduce(into: [:]) { $0.merge($1.counts, uniquingKeysWith: +) } }

    /// Counts an item under its outcome, and moves the partition's position past the item.
    mutating func count(_ item: ReplayItem, _ kind: ReplayOutcome) {
        partitions[item.source.partition]?.counts[kind, default: 0] += 1
        partitions[item.source.partition]?.move(to: item.source.offset + 1)
    }
}

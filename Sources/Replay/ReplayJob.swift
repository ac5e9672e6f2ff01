internal import Kafka

/// How many results or dead letters ended in which way.
package struct ReplayCounts: Hashable, Sendable {
    /// In the order of the commits' metadata.
    package enum Kind: Int, CaseIterable, Sendable {
        /// It fits the selection.
        case matched
        /// Another one of the same notification was taken before.
        case repeated
        case produced
        /// Left out, since it would only expire.
        case expired
        /// The request is not there any more, or another one is at its place.
        case gone
        /// The request, or the result itself, cannot be read.
        case unreadable
        /// It cannot be asked for again, or the topic refuses its record.
        case refused
        /// An offset of the results that retention took before it was read.
        case lost
    }

    fileprivate var values = [Int64](repeating: 0, count: Kind.allCases.count)

    package init() {}

    package subscript(kind: Kind) -> Int64 {
        get { values[kind.rawValue] }
        set { values[kind.rawValue] = newValue }
    }

    /// Matches that could not be asked for again, and results that were lost.
    package var missed: Int64 { self[.gone] + self[.unreadable] + self[.refused] + self[.lost] }

    static func += (total: inout ReplayCounts, part: ReplayCounts) {
        for kind in Kind.allCases { total[kind] += part[kind] }
    }
}

/// How far a job is in one partition of the results or dead letters.
struct PartitionProgress: Hashable, Sendable {
    /// The first offset that the job looks at.
    let start: Int64
    /// The end of the log when the job began. What the job itself brings about comes behind it.
    let end: Int64
    /// The next offset to look at, which the job's group has committed.
    var position: Int64
    var counts = ReplayCounts()

    init(_ range: Range<Int64>) {
        start = range.lowerBound
        end = range.upperBound
        position = range.lowerBound
    }

    var isDone: Bool { position >= end }
}

/// A job: its progress is the offset that its consumer group has committed for each partition. The commits' metadata
/// has the rest, which a run that goes on with the job needs.
struct ReplayJob: Equatable {
    private let fingerprint: String
    /// When the job began, in milliseconds since the epoch.
    let beganMs: Int64
    /// The times of the selection, which the command may have given relative to then.
    let sinceMs: Int64?
    let untilMs: Int64?
    /// Partitions that were added after the job began are not among them.
    var partitions: [TopicPartition: PartitionProgress]

    private static let version = "replay2"

    /// A job that begins now.
    init(_ order: ReplayOrder, beganMs: Int64, _ ranges: [TopicPartition: Range<Int64>]) {
        fingerprint = order.fingerprint
        self.beganMs = beganMs
        sinceMs = order.selection.sinceMs
        untilMs = order.selection.untilMs
        partitions = ranges.mapValues { PartitionProgress($0) }
    }

    /// The job that these commits describe; `nil` if it has not begun.
    init?(_ order: ReplayOrder, _ committed: [CommittedOffset]) throws(CommandFailure) {
        var job: ReplayJob?
        for commit in committed where commit.offset != nil {
            guard let part = ReplayJob(commit) else {
                throw CommandFailure(
                    "group \(order.group) has a commit for \(commit.partition) that no replay made: give another --name"
                )
            }
            guard part.fingerprint == order.fingerprint else {
                throw CommandFailure(
                    "group \(order.group) is of a job with other conditions: give another --name, or the conditions that it began with"
                )
            }
            if job == nil { job = part }
            job?.partitions.merge(part.partitions) { $1 }
        }
        guard let job else { return nil }
        self = job
    }

    /// The part of a job that the commit of one partition describes; `nil` if no replay made the commit.
    private init?(_ commit: CommittedOffset) {
        let words = String(decoding: commit.metadata, as: UTF8.self).split(separator: " ")
        let numbers = words.dropFirst(2).compactMap { Int64($0) }
        guard words.first == Self.version[...], numbers.count == words.count - 2,
            numbers.count == 5 + ReplayCounts.Kind.allCases.count, let offset = commit.offset,
            0 <= numbers[3], numbers[3] <= offset, offset <= numbers[4]
        else { return nil }
        fingerprint = String(words[1])
        beganMs = numbers[0]
        sinceMs = numbers[1] < 0 ? nil : numbers[1]
        untilMs = numbers[2] < 0 ? nil : numbers[2]
        var progress = PartitionProgress(numbers[3]..<numbers[4])
        progress.position = offset
        progress.counts.values = Array(numbers[5...])
        partitions = [commit.partition: progress]
    }

    private func entry(_ partition: TopicPartition, _ progress: PartitionProgress) -> CommitEntry {
        let numbers = [beganMs, sinceMs ?? -1, untilMs ?? -1, progress.start, progress.end] + progress.counts.values
        let words = [Self.version, fingerprint] + numbers.map { "\($0)" }
        return CommitEntry(partition, offset: progress.position, metadata: Array(words.joined(separator: " ").utf8))
    }

    /// The commits of all partitions whose progress differs from an earlier one's.
    func entries(since earlier: ReplayJob?) -> [CommitEntry] {
        partitions.filter { earlier?.partitions[$0.key] != $0.value }.map { entry($0.key, $0.value) }
    }

    /// Whether the group's commits are exactly those of this job.
    func isCommitted(_ committed: [CommittedOffset]) -> Bool {
        entries(since: nil).allSatisfy { entry in
            committed.contains {
                $0.partition == entry.partition && $0.offset == entry.offset && $0.metadata == entry.metadata
            }
        }
    }

    var isDone: Bool { partitions.values.allSatisfy(\.isDone) }

    var counts: ReplayCounts { partitions.values.reduce(into: ReplayCounts()) { $0 += $1.counts } }

    /// Which part of the job's offsets has been read at these positions, from 0 to 1.
    func part(at positions: [TopicPartition: Int64]) -> Double {
        var (passed, all) = (0.0, 0.0)
        for (partition, progress) in partitions {
            passed += Double(min(max(positions[partition] ?? 0, progress.position), progress.end) - progress.start)
            all += Double(progress.end - progress.start)
        }
        return all == 0 ? 1 : passed / all
    }
}

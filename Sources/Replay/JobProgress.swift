internal import Kafka

/// What all partitions of a job have in common, as their commits say.
struct JobFacts: Hashable, Sendable {
    /// Of the conditions (`ReplayOrder.fingerprint`).
    var fingerprint: String
    /// When the job began, in milliseconds since the epoch.
    var beganMs: Int64
    /// The times of the selection, which the command may have given relative to then.
    var sinceMs: Int64?
    var untilMs: Int64?
}

/// How far a job is in one partition of the results or dead letters: an offset that the job's group commits, and the
/// rest in the commit's metadata.
struct PartitionProgress: Hashable, Sendable {
    /// The first offset that the job looks at.
    var start: Int64
    /// Where the log ended when the job began: what the job itself brings about comes behind it.
    var end: Int64
    /// The next offset to look at.
    var position: Int64
    /// Of the dead letter at `position`, which stands for many records: the next of their offsets.
    var within: Int64?
    var counts = ReplayCounts()
    /// Of the places that the selection names, those of which something matched here: their numbers
    /// (`ReplaySelection.orderedPlaces`).
    var found: Set<Int> = []

    init(_ range: Range<Int64>) {
        start = range.lowerBound
        end = range.upperBound
        position = range.lowerBound
    }

    var isDone: Bool { position >= end }

    // MARK: Commits

    private static let version = "replay1"

    /// Printable ASCII, of some 250 bytes at most, and a hex digit for each four places that the selection names.
    func metadata(_ facts: JobFacts) -> [UInt8] {
        var words = [
            Self.version, "f=\(facts.fingerprint)", "b=\(facts.beganMs)", "start=\(start)", "end=\(end)",
        ]
        if let sinceMs = facts.sinceMs { words.append("since=\(sinceMs)") }
        if let untilMs = facts.untilMs { words.append("until=\(untilMs)") }
        if let within { words.append("within=\(within)") }
        for (letter, count) in ReplayCounts.letters where counts[keyPath: count] != 0 {
            words.append("\(letter)=\(counts[keyPath: count])")
        }
        if !found.isEmpty { words.append("found=\(Self.digits(found))") }
        return Array(words.joined(separator: " ").utf8)
    }

    /// A digit for each four numbers, those from 0 on first, the lowest of them the lowest bit.
    private static func digits(_ numbers: Set<Int>) -> String {
        var digits = [Int](repeating: 0, count: (numbers.max() ?? 0) / 4 + 1)
        for number in numbers { digits[number / 4] |= 1 << (number % 4) }
        return digits.map { String($0, radix: 16) }.joined()
    }

    private static func numbers(_ digits: Substring) -> Set<Int> {
        var numbers: Set<Int> = []
        for (place, digit) in digits.enumerated() {
            let bits = digit.hexDigitValue ?? 0
            for bit in 0..<4 where bits >> bit & 1 == 1 { numbers.insert(4 * place + bit) }
        }
        return numbers
    }

    /// `nil`: no replay committed this.
    static func read(_ offset: Int64, _ metadata: [UInt8]) -> (progress: PartitionProgress, facts: JobFacts)? {
        let words = String(decoding: metadata, as: UTF8.self).split(separator: " ")
        guard words.first == version[...] else { return nil }
        var values: [Substring: Substring] = [:]
        for word in words.dropFirst() {
            let parts = word.split(separator: "=", maxSplits: 1)
            guard parts.count == 2 else { return nil }
            values[parts[0]] = parts[1]
        }
        // Whoever may commit for the group may have committed anything.
        func number(_ name: Substring) -> Int64? {
            values[name].flatMap { Int64($0) }.flatMap { LogBounds.offsets.contains($0) ? $0 : nil }
        }
        guard let fingerprint = values["f"], let beganMs = number("b"), let start = number("start"),
            let end = number("end"), start >= 0, start <= offset, offset <= end
        else { return nil }
        var progress = PartitionProgress(start..<end)
        progress.position = offset
        progress.within = number("within")
        for (letter, count) in ReplayCounts.letters {
            progress.counts[keyPath: count] = number(Substring(String(letter))) ?? 0
        }
        progress.found = values["found"].map { numbers($0) } ?? []
        let facts = JobFacts(
            fingerprint: String(fingerprint), beganMs: beganMs, sinceMs: number("since"), untilMs: number("until"))
        return (progress, facts)
    }
}

/// How far a job is: a value that is told what was read and done, and says what is to be committed.
struct JobProgress {
    private(set) var facts: JobFacts
    /// Partitions that came later than the job are none of its.
    private(set) var partitions: [TopicPartition: PartitionProgress]

    /// A job that begins now.
    init(_ facts: JobFacts, _ ranges: [TopicPartition: Range<Int64>]) {
        self.facts = facts
        partitions = ranges.mapValues { PartitionProgress($0) }
    }

    /// A job that goes on where its group's commits say; `nil`: it has not begun.
    init?(_ order: ReplayOrder, _ committed: [CommittedOffset]) throws(ReplayFailure) {
        var facts: JobFacts?
        partitions = [:]
        for commit in committed {
            guard let offset = commit.offset else { continue }
            guard let read = PartitionProgress.read(offset, commit.metadata) else {
                throw ReplayFailure(
                    "group \(order.group) has a commit for \(commit.partition) that is none of a replay's: give another --name"
                )
            }
            guard read.facts.fingerprint == order.fingerprint else {
                throw ReplayFailure(
                    "group \(order.group) is of a job with other conditions: give another --name, or the conditions that it began with"
                )
            }
            facts = read.facts
            partitions[commit.partition] = read.progress
        }
        guard let facts else { return nil }
        self.facts = facts
    }

    /// The same job elsewhere.
    ///
    /// - Parameter counts: in addition to those of the partitions.
    func at(
        _ partitions: [TopicPartition: PartitionProgress], plus counts: [TopicPartition: ReplayCounts]
    ) -> JobProgress {
        var other = self
        other.partitions = partitions
        for (partition, counts) in counts { other.count(partition, counts) }
        return other
    }

    var isDone: Bool { partitions.values.allSatisfy(\.isDone) }

    var counts: ReplayCounts { partitions.values.reduce(into: ReplayCounts()) { $0 += $1.counts } }

    /// Offsets looked at and to be looked at, of all partitions.
    var passed: (done: Double, all: Double) {
        partitions.values.reduce((0, 0)) { ($0.0 + Double($1.position - $1.start), $0.1 + Double($1.end - $1.start)) }
    }

    /// Of these places, those of which nothing matched, in their order.
    func unmatched(_ places: [ReplaySelection.Place]) -> [ReplaySelection.Place] {
        let found = partitions.values.reduce(into: Set<Int>()) { $0.formUnion($1.found) }
        return places.indices.filter { !found.contains($0) }.map { places[$0] }
    }

    // MARK: What is told

    /// Something matched of the place with this number.
    mutating func found(_ number: Int, in partition: TopicPartition) { partitions[partition]?.found.insert(number) }

    /// All up to an offset was looked at.
    mutating func moved(_ partition: TopicPartition, to position: Int64, within: Int64? = nil) {
        guard var progress = partitions[partition] else { return }
        progress.position = min(position, progress.end)
        progress.within = within
        partitions[partition] = progress
    }

    mutating func count(_ partition: TopicPartition, _ counts: ReplayCounts) {
        partitions[partition]?.counts += counts
    }

    // MARK: What is to be committed

    /// What differs from what was committed last.
    func entries(since last: JobProgress?) -> [CommitEntry] {
        partitions.compactMap { partition, progress in
            guard progress != last?.partitions[partition] else { return nil }
            return CommitEntry(partition, offset: progress.position, metadata: progress.metadata(facts))
        }
    }

    /// Whether the commits are these.
    func isWhat(_ committed: [CommittedOffset]) -> Bool {
        partitions.allSatisfy { partition, progress in
            committed.contains {
                $0.partition == partition && $0.offset == progress.position && $0.metadata == progress.metadata(facts)
            }
        }
    }
}

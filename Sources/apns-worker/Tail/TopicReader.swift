import Kafka

/// Where reading a topic starts.
enum ReadingStart: Equatable {
    case beginning, end
    /// Records with this timestamp (milliseconds since the epoch) or a later one.
    case time(Int64)
}

/// A command cannot go on; one line that says what to do.
struct CommandFailure: Error {
    let line: String

    init(_ line: String) { self.line = line }
}

/// Reads all partitions of one topic without a group, also those that are added while it reads, and the topic that is
/// made anew under its name. One thread.
final class TopicReader {
    private let topic: String
    private let reader: OffsetReader
    private var followed: FollowedTopic
    private var troubles = Troubles()
    /// When the topic is looked at again.
    private var look = Deadline(after: lookPause)
    private var isLookSoon = false

    private static let lookPause = Duration.seconds(5)
    /// Where something seems to be gone.
    private static let lookAgainPause = Duration.seconds(1)
    private static let lookMs: Int32 = 1_000
    /// Brokers keep a question so long where nothing waits.
    private static let idleMs: Int32 = 100

    /// Throws when Kafka cannot be reached, the topic does not exist, or may not be read.
    init(
        _ cluster: ClusterSettings, topic: String, from start: ReadingStart, until deadline: Deadline = .never
    ) throws(CommandFailure) {
        self.topic = topic
        do throws(KafkaError) {
            reader = try OffsetReader(cluster, fetchKilobytes: 1_024, idleMs: Self.idleMs)
        } catch {
            throw CommandFailure("\(topic): \(error)")
        }
        let question = TopicQuestion(reader, cluster.bootstrapServers, until: deadline)
        let partitions = try question.partitions(of: topic, else: Denial.reading)
        let bounds = try question.bounds(of: partitions)
        let starts = try question.starts(of: partitions, at: start, bounds)
        followed = FollowedTopic(
            topic,
            bounds.reduce(into: [:]) { $0[$1.key] = (starts[$1.key] ?? $1.value.upperBound, $1.value.upperBound) })
        for partition in partitions { try begin(partition, at: starts[partition] ?? OffsetReader.beginning) }
    }

    private func begin(_ partition: TopicPartition, at offset: Int64) throws(CommandFailure) {
        do throws(KafkaError) {
            try reader.start(partition, at: offset)
        } catch {
            throw CommandFailure("\(error)")
        }
    }

    /// The record at an offset; `nil`: it is not there any more, or not yet, or cannot be read in time.
    static func record(at offset: Int64, of partition: TopicPartition, _ cluster: ClusterSettings) -> ReadRecord? {
        guard let reader = try? OffsetReader(cluster, fetchKilobytes: 64) else { return nil }
        let limit = Deadline(after: .seconds(5))
        let question = TopicQuestion(reader, cluster.bootstrapServers, until: limit)
        guard let known = try? question.partitions(of: partition.topic, else: Denial.reading),
            known.contains(partition), let range = try? question.bounds(of: [partition])[partition],
            range.contains(offset), (try? reader.start(partition, at: offset)) != nil
        else { return nil }
        var found: ReadRecord?
        var isOver = false
        while found == nil, !isOver, !limit.hasPassed {
            _ = reader.next(timeoutMs: limit.leftMs(atMost: 200)) { partition, message in
                found = ReadRecord(message, of: partition)
            } trouble: { _, trouble in
                if case .failed(let error) = trouble, Denial.reading(partition.topic, error.code) == nil { return }
                isOver = true
            }
        }
        return found?.offset == offset ? found : nil
    }

    /// Whether all that was there when reading began has been read.
    var isCaughtUp: Bool { followed.isCaughtUp }

    /// Lends what there is to `body`, waiting at most `timeoutMs` when there is nothing, until it says false; throws
    /// when reading cannot go on.
    func read(timeoutMs: Int32, _ body: (ReadRecord) -> Bool) throws(CommandFailure) {
        try lookAtTopic()
        var timeoutMs = timeoutMs
        var isWanted = true
        for _ in 0..<1_000 where isWanted {
            var seen: (partition: TopicPartition, trouble: OffsetReader.Trouble)?
            let hasCome = reader.next(timeoutMs: timeoutMs) { partition, message in
                let record = ReadRecord(message, of: partition)
                followed.passed(partition, to: record.offset + 1)
                isWanted = body(record)
            } trouble: { partition, trouble in
                seen = (partition, trouble)
            }
            if let seen { try meet(seen.trouble, of: seen.partition) }
            guard hasCome else { break }
            timeoutMs = 0
        }
        for event in reader.events() {
            switch event {
            case .fatal(let error): throw CommandFailure("Kafka: \(error)")
            case .error(let error): troubles.say(error)
            case .log, .statistics: break
            }
        }
    }

    private func meet(_ trouble: OffsetReader.Trouble, of partition: TopicPartition) throws(CommandFailure) {
        switch trouble {
        case .end(let offset): followed.passed(partition, to: offset)
        case .outOfRange:
            let range = reader.bounds(of: [partition], timeoutMs: Self.lookMs)[partition]
            let change = followed.lacks(partition, of: range ?? 0..<Int64.max)
            if !change.isAnew { complain("\(partition): records were gone before they were read") }
            try follow(change)
        case .unreadable(_, let error): troubles.say(error)
        case .failed(let error):
            if let denial = Denial.reading(topic, error.code) { throw CommandFailure(denial) }
            if error.code.isUnknownTopic { lookSoon() } else { troubles.say(error) }
        }
    }

    // MARK: The topic

    private func lookSoon() {
        guard !isLookSoon else { return }
        isLookSoon = true
        look = Deadline(after: Self.lookAgainPause)
    }

    private func lookAtTopic() throws(CommandFailure) {
        guard look.hasPassed else { return }
        isLookSoon = false
        look = Deadline(after: Self.lookPause)
        let description: TopicDescription?
        do throws(KafkaError) {
            description = try reader.topics(named: [topic], timeoutMs: Self.lookMs)[topic]
        } catch {
            return troubles.say(error)
        }
        let code = description?.code ?? .unknownTopic
        if let denial = Denial.reading(topic, code) { throw CommandFailure(denial) }
        if code.isUnknownTopic {
            troubles.say("\(topic): there is no such topic now")
            try follow(followed.missed())
            return lookSoon()
        }
        guard code == .none, let description else { return troubles.say("\(topic): \(code.text)") }
        try follow(followed.found(description.partitions))
    }

    private func follow(_ change: FollowedTopic.Change) throws(CommandFailure) {
        if change.isAnew { complain("\(topic): it was made anew; it is read from its beginning") }
        for partition in change.ended { reader.stop(partition) }
        for partition in change.begun { try begin(partition, at: OffsetReader.beginning) }
    }
}

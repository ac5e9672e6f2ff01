internal import Glibc

/// The reason why a command ends before its work is done, in one line with advice for the user.
package struct CommandFailure: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        case failed
        /// A signal or `--deadline` ended the command.
        case stopped
        case unknownTopic
    }

    package let description: String
    package let kind: Kind

    package init(_ description: String, _ kind: Kind = .failed) {
        self.description = description
        self.kind = kind
    }
}

/// How long a command waits for brokers, and the function that reports errors during the wait.
package struct BrokerWait {
    private let servers: String
    private let limitMs: Int64?
    private let leftMs: () -> Int64
    private let report: (String) -> Void

    /// - Parameters:
    ///   - limitMs: the time after which an unanswered request fails, or `nil` to wait as long as the command runs.
    ///   - leftMs: returns how many milliseconds the command has left, or 0 if it must stop.
    ///   - report: receives the text of each error after which the command tries again.
    package init(
        _ cluster: ClusterSettings, limitMs: Int64?, leftMs: @escaping () -> Int64, report: @escaping (String) -> Void
    ) {
        servers = cluster.bootstrapServers
        self.limitMs = limitMs
        self.leftMs = leftMs
        self.report = report
    }

    package func say(_ text: String) { report(text) }

    package func say(_ events: [ClientEvent]) throws(CommandFailure) {
        for event in events {
            switch event {
            case .fatal(let error): throw CommandFailure("Kafka: \(error)")
            case .error(let error): report(error.text)
            case .log, .statistics: break
            }
        }
    }

    package func check() throws(CommandFailure) {
        if leftMs() <= 0 { throw CommandFailure("stopped", .stopped) }
    }

    package func pause(ms milliseconds: Int64) throws(CommandFailure) {
        let untilMs = Stopwatch.nowMs + milliseconds
        while true {
            try check()
            let left = min(untilMs - Stopwatch.nowMs, leftMs())
            guard left > 0 else { return }
            usleep(UInt32(min(left, 100)) * 1_000)
        }
    }

    /// Repeats a request until a broker answers, the limit has passed or the command must stop.
    ///
    /// - Parameters:
    ///   - denial: returns the message for an error that means a missing permission, or `nil` for other errors.
    ///   - question: sends the request, and receives the request's time limit in milliseconds.
    package func answer<R>(
        about subject: String, from client: OffsetReader, denial: (KafkaCode) -> String? = { _ in nil },
        _ question: (Int32) throws(KafkaError) -> R
    ) throws(CommandFailure) -> R {
        let beganMs = Stopwatch.nowMs
        var timeoutMs: Int64 = 2_000
        while true {
            var reason: String
            do throws(KafkaError) {
                return try question(Int32(max(1, min(timeoutMs, leftMs()))))
            } catch {
                if let line = denial(error.code) { throw CommandFailure(line) }
                reason = error.text
                // The client's own errors explain why no broker can be reached.
                for case .error(let error) in client.events() { reason = error.text }
            }
            let silence = "no broker of \(servers) answers"
            if let limitMs, Stopwatch.nowMs - beganMs >= limitMs || leftMs() <= 0 {
                throw CommandFailure("\(subject): \(silence): \(reason)")
            }
            report("\(silence) yet: \(reason)")
            timeoutMs = 8_000
            try pause(ms: 200)
        }
    }

    package func partitions(
        of topic: String, from client: OffsetReader, denial: (String, KafkaCode) -> String?
    ) throws(CommandFailure) -> [TopicPartition] {
        let found = try answer(about: topic, from: client) { timeoutMs throws(KafkaError) in
            try client.topics(named: [topic], timeoutMs: timeoutMs)[topic]
        }
        let code = found?.code ?? .unknownTopic
        if let line = denial(topic, code) { throw CommandFailure(line) }
        if code.isUnknownTopic { throw CommandFailure("\(topic): there is no such topic at \(servers)", .unknownTopic) }
        guard code == .none, let found else { throw CommandFailure("\(topic): \(KafkaError(code))") }
        return found.all
    }

    /// Returns each partition's log start offset and last stable offset (the end of its readable records). Waits for
    /// partitions whose leader is being elected.
    package func bounds(
        of partitions: [TopicPartition], from client: OffsetReader
    ) throws(CommandFailure) -> [TopicPartition: Range<Int64>] {
        let topics = Set(partitions.map(\.topic)).sorted()
        return try answer(about: topics.joined(separator: ", "), from: client) { timeoutMs throws(KafkaError) in
            // Request the topics' metadata first, so that the client finds a newly elected leader.
            _ = try client.topics(named: topics, timeoutMs: timeoutMs)
            let found = try client.bounds(of: partitions, timeoutMs: timeoutMs)
            guard let silent = partitions.first(where: { found[$0] == nil }) else { return found }
            throw KafkaError(.timedOut, "the leader of \(silent) did not return the partition's offsets")
        }
    }
}

package enum ReadingStart: Equatable, Sendable {
    case beginning, end
    /// The first record whose timestamp is this time (milliseconds since the epoch) or later.
    case time(Int64)
}

/// Reads the partitions of one topic for a command, without joining a group. Use it on one thread.
///
/// If a partition's next offset no longer exists, the reader continues at the partition's log start offset.
package final class TopicReader {
    package let topic: String
    package let client: OffsetReader
    private let wait: BrokerWait
    /// The log start offset and last stable offset of each partition when the reader was created.
    package let bounds: [TopicPartition: Range<Int64>]
    /// The next offset to read, for each partition that `start` was called for.
    package private(set) var positions: [TopicPartition: Int64] = [:]
    private var nextLookMs: Int64

    private static let lookPauseMs: Int64 = 5_000

    /// - Parameter group: the consumer group whose committed offsets `client` can return, or `nil`.
    package convenience init(
        _ cluster: ClusterSettings, topic: String, group: String? = nil, _ wait: BrokerWait
    ) throws {
        try self.init(
            OffsetReader(cluster, group: group, fetchKilobytes: 1_024, idleMs: 100), topic: topic, wait)
    }

    /// - Parameter client: the client to read with. It must not read anything else at the same time.
    package init(_ client: OffsetReader, topic: String, _ wait: BrokerWait) throws {
        self.client = client
        self.topic = topic
        self.wait = wait
        let partitions = try wait.partitions(of: topic, from: client, denial: Denial.reading)
        bounds = try wait.bounds(of: partitions, from: client)
        nextLookMs = Stopwatch.nowMs + Self.lookPauseMs
    }

    package func starts(at start: ReadingStart) throws -> [TopicPartition: Int64] {
        switch start {
        case .beginning: return bounds.mapValues(\.lowerBound)
        case .end: return bounds.mapValues(\.upperBound)
        case .time(let timestampMs):
            let found = try wait.answer(about: topic, from: client) { timeoutMs throws(KafkaError) in
                try client.offsets(of: Array(bounds.keys), fromMs: timestampMs, timeoutMs: timeoutMs)
            }
            // Read a partition from its end if it has no record at or after `timestampMs`.
            return bounds.reduce(into: [:]) {
                $0[$1.key] = max($1.value.lowerBound, min(found[$1.key] ?? .max, $1.value.upperBound))
            }
        }
    }

    package func start(at start: ReadingStart) throws {
        for (partition, offset) in try starts(at: start) { try self.start(partition, at: offset) }
    }

    package func start(_ partition: TopicPartition, at offset: Int64) throws {
        try client.start(partition, at: offset)
        positions[partition] = offset
    }

    /// Whether all records that existed when the reader was created have been read.
    package var isCaughtUp: Bool { bounds.allSatisfy { positions[$0.key] ?? 0 >= $0.value.upperBound } }

    /// Passes up to 1,000 available records to `body`, until `body` returns `false`. Waits up to `timeoutMs` for the
    /// first record. Throws if reading cannot continue.
    package func read(timeoutMs: Int32, _ body: (TopicPartition, borrowing Message) -> Bool) throws {
        var timeoutMs = timeoutMs
        var isWanted = true
        for _ in 0..<1_000 where isWanted {
            var trouble: (partition: TopicPartition, error: KafkaError, offset: Int64)?
            let hasCome = client.next(timeoutMs: timeoutMs) { partition, message in
                positions[partition] = message.offset + 1
                isWanted = body(partition, message)
            } trouble: {
                trouble = ($0, $1, $2)
            }
            if let trouble { try handle(trouble.error, at: trouble.offset, of: trouble.partition) }
            guard hasCome else { break }
            timeoutMs = 0
        }
        try wait.say(client.events())
    }

    private func handle(_ error: KafkaError, at offset: Int64, of partition: TopicPartition) throws {
        switch error.code {
        case .partitionEnd: positions[partition] = max(offset, positions[partition] ?? 0)
        case .offsetOutOfRange, .autoOffsetReset:
            guard let range = try wait.bounds(of: [partition], from: client)[partition],
                let position = positions[partition]
            else { return }
            if range.lowerBound > position {
                wait.say("\(range.lowerBound - position) offsets of \(partition) were deleted before they were read")
            } else {
                // Do not compare the position with the end: a recreated log may already have grown beyond the position.
                wait.say("\(partition): the topic was recreated or truncated; reading from its beginning")
            }
            try start(partition, at: range.lowerBound)
        case .badCompression, .badMessage:
            throw CommandFailure("\(partition) cannot be read from offset \(offset) on (\(error.text))")
        default:
            if let denial = Denial.reading(topic, error.code) { throw CommandFailure(denial) }
            wait.say(error.text)
        }
    }

    /// Finds partitions that were added to the topic, and reads them from their beginning. If a recreated topic has
    /// fewer partitions, reads all of them from their beginning. Call this method between reads. It requests metadata
    /// at most every five seconds.
    package func followTopic() throws {
        guard Stopwatch.nowMs >= nextLookMs else { return }
        nextLookMs = Stopwatch.nowMs + Self.lookPauseMs
        let found: TopicDescription?
        do throws(KafkaError) {
            found = try client.topics(named: [topic], timeoutMs: 1_000)[topic]
        } catch {
            return wait.say(error.text)
        }
        let code = found?.code ?? .unknownTopic
        if let denial = Denial.reading(topic, code) { throw CommandFailure(denial) }
        guard code == .none, let found else {
            return wait.say(code.isUnknownTopic ? "\(topic): the topic no longer exists" : "\(topic): \(code.text)")
        }
        // Kafka never removes partitions from a topic, so the topic was recreated.
        if found.partitions < positions.count {
            wait.say("\(topic): the topic was recreated; reading from its beginning")
            for partition in positions.keys { client.stop(partition) }
            positions = [:]
        }
        for partition in found.all where positions[partition] == nil { try start(partition, at: 0) }
    }
}

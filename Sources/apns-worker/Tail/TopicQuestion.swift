import Glibc
import Kafka

/// What commands ask of a topic before they read or write it: whether it is there and theirs to use, and where its logs
/// begin and end. Each question waits some ten seconds at most, or until the command's deadline.
struct TopicQuestion {
    private let reader: OffsetReader
    private let servers: String
    private let deadline: Deadline

    private static let firstQuestionMs: Int32 = 2_000
    /// Of one question; all of them together may take as long.
    private static let questionMs: Int32 = 10_000

    init(_ reader: OffsetReader, _ servers: String, until deadline: Deadline) {
        self.reader = reader
        self.servers = servers
        self.deadline = deadline
    }

    /// With a client of its own.
    init(_ cluster: ClusterSettings, until deadline: Deadline) throws(KafkaError) {
        self.init(try OffsetReader(cluster, fetchKilobytes: 64), cluster.bootstrapServers, until: deadline)
    }

    /// Its partitions. Throws why it cannot be used.
    ///
    /// - Parameter denial: says which right is missing (`Denial`).
    func partitions(
        of topic: String, else denial: (String, KafkaCode) -> String?
    ) throws(CommandFailure) -> [TopicPartition] {
        let found: TopicDescription?
        do throws(KafkaError) {
            found = try description(of: topic)
        } catch {
            throw CommandFailure("\(topic): \(error)")
        }
        let code = found?.code ?? .unknownTopic
        if let line = denial(topic, code) { throw CommandFailure(line) }
        if code.isUnknownTopic { throw CommandFailure("\(topic): there is no such topic at \(servers)") }
        guard code == .none, let found else { throw CommandFailure("\(topic): \(KafkaError(code))") }
        return (0..<Int32(found.partitions)).map { TopicPartition(topic, $0) }
    }

    /// Says after two seconds that nobody answers yet.
    private func description(of topic: String) throws(KafkaError) -> TopicDescription? {
        do throws(KafkaError) {
            return try reader.topics(
                named: [topic], timeoutMs: max(1, deadline.leftMs(atMost: Self.firstQuestionMs)))[topic]
        } catch {}
        /// librdkafka says why once.
        var reason: String?
        func look() { for case .error(let error) in reader.events() { reason = error.text } }
        look()
        let place = "no broker of \(servers) answers"
        let leftMs = deadline.leftMs(atMost: Self.questionMs - Self.firstQuestionMs)
        if leftMs > 0 {
            complain("\(place) yet\(reason.map { ": \($0)" } ?? ""); trying on for \((leftMs + 999) / 1_000) s")
        }
        do throws(KafkaError) {
            return try reader.topics(named: [topic], timeoutMs: max(1, leftMs))[topic]
        } catch {
            look()
            throw KafkaError(error.code, "\(place): \(reason ?? error.text)")
        }
    }

    /// The first offset that each of them has, and the end of what can be read of it. Waits for leaders that are just
    /// being chosen.
    func bounds(of partitions: [TopicPartition]) throws(CommandFailure) -> [TopicPartition: Range<Int64>] {
        let limit = Deadline(after: .milliseconds(Int64(Self.questionMs)))
        var found: [TopicPartition: Range<Int64>] = [:]
        while true {
            let missing = partitions.filter { found[$0] == nil }
            guard let silent = missing.first else { return found }
            found.merge(reader.bounds(of: missing, timeoutMs: max(1, deadline.leftMs(atMost: 2_000)))) { $1 }
            if found.count == partitions.count { return found }
            guard !limit.hasPassed, !deadline.hasPassed else {
                throw CommandFailure("\(silent): its leader does not answer")
            }
            usleep(100_000)
            // Who is silent is asked again after it.
            _ = try? reader.topics(named: [silent.topic], timeoutMs: max(1, deadline.leftMs(atMost: 1_000)))
        }
    }

    /// Where reading begins.
    func starts(
        of partitions: [TopicPartition], at start: ReadingStart, _ bounds: [TopicPartition: Range<Int64>]
    ) throws(CommandFailure) -> [TopicPartition: Int64] {
        switch start {
        case .beginning: return bounds.mapValues(\.lowerBound)
        case .end: return bounds.mapValues(\.upperBound)
        case .time(let timestampMs):
            do throws(KafkaError) {
                let found = try reader.offsets(of: partitions, fromMs: timestampMs, timeoutMs: Self.questionMs)
                // Of what has no such record yet, what comes.
                return bounds.mapValues(\.upperBound).merging(found) { $1 }
            } catch {
                throw CommandFailure("\(partitions.first?.topic ?? ""): \(error)")
            }
        }
    }
}

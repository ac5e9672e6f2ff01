import Foundation
import Kafka
import TestSupport
import Testing

struct TimedOut: Error, CustomStringConvertible {
    let description: String
}

/// A record as a test saw it.
struct Seen: Equatable {
    var partition: Int32
    var offset: Int64
    var timestampMs: Int64
    var key: [UInt8]?
    var value: [UInt8]?
    var headers: [Header]

    struct Header: Equatable {
        var name: String
        var value: [UInt8]?
    }

    var text: String { String(decoding: value ?? [], as: UTF8.self) }
}

extension UnsafeRawBufferPointer {
    var copied: [UInt8]? { baseAddress == nil ? nil : Array(self) }
}

/// A consumer whose loop serves events, answers rebalances as configured and stores everything it receives.
final class Member {
    let consumer: Consumer
    let wakeUp = WakeUp()
    /// The queues of the assigned partitions.
    var queues: [TopicPartition: PartitionQueue] = [:]
    var records: [Seen] = []
    var replies: [CommitReply] = []
    var resets: [TopicPartition] = []
    var log: [String] = []
    var errors: [KafkaError] = []
    var fatal: KafkaError?
    /// The revocations in order. `true` means that the partitions were lost.
    var revocations: [Bool] = []
    /// An assignment or revocation that has not been answered yet.
    var pendingAssignment: [TopicPartition]?
    var pendingRevocation: [TopicPartition]?
    /// Whether rebalances are answered immediately.
    var answersAssignments = true
    var answersRevocations = true
    /// The maximum number of records that one call reads from a partition's queue.
    var readsAtMost = 100

    init(_ settings: ConsumerSettings, topics: [String]) throws {
        consumer = try Consumer(settings, wakeUpDescriptor: wakeUp.descriptor)
        try consumer.subscribe(to: topics)
    }

    /// Runs turns until the condition holds. Without other members, only the eventfd starts a turn.
    func run(_ what: String, together others: [Member] = [], until condition: () throws -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: ChildProcess.patience)
        try turn()
        for other in others { try other.turn() }
        while try !condition() {
            if others.isEmpty {
                guard wakeUp.wait(until: deadline) else { throw timedOut(what) }
            } else {
                guard Date() < deadline else { throw timedOut(what) }
                _ = wakeUp.wait(until: Date(timeIntervalSinceNow: 0.02))
                for other in others { try other.turn() }
            }
            try turn()
        }
    }

    private func timedOut(_ what: String) -> TimedOut {
        TimedOut(
            description: """
                timed out waiting for \(what): assigned \(queues.values.map { "\($0.partition): \($0.count)" }.sorted()), \(records.count) records, \
                revocations \(revocations), log \(log.suffix(20)), errors \(errors)
                """)
    }

    func turn() throws {
        var failures: [any Error] = []
        consumer.serve { event in
            do { try self.handle(event) } catch { failures.append(error) }
        }
        if let failure = failures.first { throw failure }
        // Records left in a queue cause no wake-up, so every queue is read until it is empty.
        for queue in queues.values { while readsAtMost > 0, read(queue, max: readsAtMost) > 0 {} }
    }

    @discardableResult
    func read(_ queue: PartitionQueue, max: Int) -> Int {
        queue.read(max: max) { message in
            var headers: [Seen.Header] = []
            message.forEachHeader { name, value in
                headers.append(Seen.Header(name: String(decoding: name, as: UTF8.self), value: value.copied))
            }
            records.append(
                Seen(
                    partition: message.partition, offset: message.offset, timestampMs: message.timestampMs,
                    key: message.key.copied, value: message.value.copied, headers: headers))
            return true
        }
    }

    private func handle(_ event: ConsumerEvent) throws {
        switch event {
        case .assigned(let partitions):
            pendingAssignment = partitions
            if answersAssignments { try answerAssignment() }
        case .revoked(let partitions, let lost):
            revocations.append(lost)
            pendingRevocation = partitions
            if answersRevocations { try answerRevocation() }
        case .committed(let reply): replies.append(reply)
        case .partitionFailed(let partition, let error) where error.code == .autoOffsetReset:
            resets.append(partition)
        case .partitionFailed(_, let error): errors.append(error)
        case .client(.log(_, let facility, let text)): log.append("\(facility) \(text)")
        case .client(.error(let error)): errors.append(error)
        case .client(.fatal(let error)): fatal = error
        case .client(.statistics): break
        }
    }

    func answerAssignment() throws {
        guard let partitions = pendingAssignment else { return }
        pendingAssignment = nil
        let committed = partitions.isEmpty ? [] : try consumer.committed(partitions, timeoutMs: 10_000)
        for queue in try consumer.assign(committed.map { ($0.partition, $0.offset) }) {
            queues[queue.partition] = queue
        }
    }

    func answerRevocation() throws {
        pendingRevocation = nil
        try consumer.unassign()
        queues = queues.filter { !$0.value.isClosed }
    }

    /// Reads exactly `count` records of one partition and returns their offsets.
    func readOffsets(_ queue: PartitionQueue, _ count: Int) throws -> [Int64] {
        let first = records.count
        try run("\(count) records of \(queue.partition)") {
            read(queue, max: first + count - records.count)
            return records.count == first + count
        }
        return records[first...].map(\.offset)
    }

    /// Commits and waits for the broker's answer.
    func commit(_ entries: [CommitEntry], tag: UInt64) throws -> CommitReply {
        try consumer.commit(entries, tag: tag)
        try run("the answer to a commit") { replies.contains { $0.tag == tag } }
        return replies.last { $0.tag == tag }!
    }

    func close() throws {
        try consumer.startClosing()
        try awaitClosed()
    }

    func awaitClosed() throws {
        while !consumer.isClosed {
            _ = wakeUp.wait(until: Date(timeIntervalSinceNow: 0.05))
            try turn()
        }
    }
}

/// A producer whose loop stores its delivery reports and events.
final class Writer {
    let producer: Producer
    let wakeUp = WakeUp()
    /// The codes of the delivery reports of each tag, in order.
    var reports: [UInt64: [KafkaCode]] = [:]
    var undelivered: [UndeliveredRecord] = []
    var fatal: KafkaError?
    var errors: [KafkaError] = []
    var log: [String] = []

    init(_ servers: String, properties: [KafkaProperty] = []) throws {
        let cluster = ClusterSettings(bootstrapServers: servers, properties: try KafkaProperties(producer: properties))
        producer = try Producer(ProducerSettings(cluster: cluster), wakeUpDescriptor: wakeUp.descriptor)
    }

    /// Returns a writer that is connected to the cluster, and the cluster's topic.
    static func connected(_ cluster: Cluster, properties: [KafkaProperty] = []) throws -> (Writer, ProducerTopic) {
        let writer = try Writer(cluster.servers, properties: properties)
        let topic = try writer.producer.topic(cluster.topic)
        try writer.producer.warmUp(timeoutMs: 10_000)
        return (writer, topic)
    }

    func report(_ report: borrowing DeliveryReport) {
        reports[report.tag, default: []].append(report.code)
        if report.code != .none { undelivered.append(report.detach()) }
    }

    func event(_ event: ClientEvent) {
        switch event {
        case .fatal(let error): fatal = error
        case .error(let error): errors.append(error)
        case .log(_, let facility, let text): log.append("\(facility) \(text)")
        case .statistics: break
        }
    }

    /// Serves the producer until the condition holds. Only the eventfd wakes the loop.
    func run(_ what: String, until condition: () -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: ChildProcess.patience)
        producer.serve(report: report, event: event)
        while !condition() {
            guard wakeUp.wait(until: deadline) else {
                throw TimedOut(
                    description: "timed out waiting for \(what): \(reports.count) reports, \(errors), \(log.suffix(20))"
                )
            }
            producer.serve(report: report, event: event)
        }
    }

    /// Waits until each record is reported.
    func flush() { #expect(producer.flush(timeoutMs: 180_000, report: report, event: event) == 0) }

    /// Produces one record. A `nil` key or value is sent as null.
    func produce(
        to topic: ProducerTopic, partition: Int32 = -1, key: [UInt8]?, value: [UInt8]?,
        headers: [Seen.Header] = [], timestampMs: Int64 = 0, tag: UInt64
    ) -> KafkaCode {
        // The buffers stay valid until this call returns.
        var lent: [UnsafeMutableRawBufferPointer] = []
        defer { for buffer in lent { buffer.deallocate() } }
        func lend(_ bytes: [UInt8]?) -> UnsafeRawBufferPointer {
            guard let bytes else { return UnsafeRawBufferPointer(start: nil, count: 0) }
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 1)
            buffer.copyBytes(from: bytes)
            lent.append(buffer)
            return UnsafeRawBufferPointer(start: buffer.baseAddress, count: bytes.count)
        }
        let list = headers.map { MessageHeader(name: lend(Array($0.name.utf8)), value: lend($0.value)) }
        return producer.produce(
            to: topic, partition: partition, key: lend(key), value: lend(value), headers: list,
            timestampMs: timestampMs, tag: tag)
    }

    /// Produces texts to one partition and waits for their reports.
    func fill(_ topic: String, partition: Int32 = 0, _ texts: [String]) throws {
        let handle = try producer.topic(topic)
        let first = UInt64(reports.count)
        for (index, text) in texts.enumerated() {
            let code = produce(
                to: handle, partition: partition, key: nil, value: Array(text.utf8), tag: first + UInt64(index))
            try #require(code == .none)
        }
        try run("reports of \(texts.count) records") {
            reports.count == Int(first) + texts.count && producer.outstanding == 0
        }
        try #require(reports.values.allSatisfy { $0 == [.none] })
    }
}

@testable import Configuration
import Delivery
import Foundation
import Kafka
import Observability
import PushRecords
import TestSupport
import Testing

@testable import Worker

/// A machine and its publisher, on in-process brokers. Without apps every request ends at once with a result.
final class PublisherScene {
    let cluster: MockCluster
    let wakeUp = WakeUp()
    let publisher: RecordPublisher
    let results: String
    let deadLetters: String
    let tiers: [String]
    let log = MemorySink()
    private var machine: DeliveryMachine
    private let id: PartitionID
    private var nextOffset: Int64 = 0
    /// The number of turns so far.
    private(set) var turns = 0

    init(producer properties: KeyValuePairs<String, String> = [:], apps: [AppRoute] = []) throws {
        cluster = try MockCluster()
        let name = KafkaBroker.uniqueName("publisher")
        results = "\(name).results"
        deadLetters = "\(name).dead-letters"
        var configuration = WorkerConfiguration(
            kafka: KafkaSettings(bootstrapServers: cluster.bootstrapServers), apps: [])
        configuration.kafka.producerProperties = properties.map { UserProperty(name: $0, value: $1, place: "") }
        configuration.results.topic = results
        configuration.deadLetters.topic = deadLetters
        configuration.unregistered.topic = "\(name).unregistered"
        tiers = configuration.retry.tiers.map(\.topic)
        for topic in [results, deadLetters, configuration.unregistered.topic] + tiers {
            try cluster.create(topic, partitions: 1)
        }
        let settings = try configuration.cluster()
        publisher = try RecordPublisher(
            configuration, apps: apps.map { RecordApp(name: $0.name, environment: $0.environment) },
            cluster: settings, wakeUpDescriptor: wakeUp.descriptor, logger: Logger(sink: log.write))
        try? publisher.producer.warmUp(timeoutMs: 10_000)
        machine = DeliveryMachine(settings: configuration.machineSettings, apps: apps)
        id = machine.assign(
            topic: "requests", partition: 0, role: .requests(weight: 1), committedOffset: nil,
            metadata: .nothing, logEnd: 0)
    }

    var now: DeliveryTime {
        let (ns, wallMs) = Logger.systemClock()
        return DeliveryTime(ns: stoppedNs ?? ns + lateNs, wallMs: wallMs)
    }

    /// Nanoseconds added to the clock.
    var lateNs: Int64 = 0
    /// The time at which the clock is stopped, or `nil` while it runs.
    var stoppedNs: Int64?

    var settled: Int { Int(machine.counters.notificationsSettled) }

    func isWritable(_ target: ProductionTarget) -> Bool { machine.isWritable(target) }

    /// Receives requests for the app. Without an app, each request ends with the result `invalid`.
    func request(_ count: Int) {
        let (token, value) = (Lent(String(repeating: "ab", count: 32)), Lent(#"{"aps":{}}"#))
        for _ in 0..<count {
            let receipt = machine.receive(
                id, offset: nextOffset, timestampMs: now.wallMs, key: token.bytes, value: value.bytes,
                headers: UnsafeBufferPointer(start: nil, count: 0), now: now)
            #expect("\(receipt)" == "taken")
            nextOffset += 1
        }
    }

    /// Offers one record `count` times as a dead letter. Returns for each offer whether it was accepted.
    func offerDeadLetters(_ count: Int, bytes: Int) throws -> [Bool] {
        let topic = KafkaBroker.uniqueName("unreadable")
        try cluster.create(topic, partitions: 1)
        let settings = ClusterSettings(bootstrapServers: cluster.bootstrapServers)
        let writer = try Producer(ProducerSettings(cluster: settings))
        let target = try writer.topic(topic)
        let value = Lent(String(repeating: "x", count: bytes))
        let code = writer.produce(to: target, key: .nothing, value: value.bytes, headers: [], tag: 1)
        #expect(code == .none)
        #expect(writer.flush(timeoutMs: 20_000, report: { _ in }, event: { _ in }) == 0)
        var answers: [Bool] = []
        try readFirst(of: topic) { message in
            for _ in 0..<count {
                nextOffset += 1
                let receipt = machine.receive(
                    id, offset: nextOffset, timestampMs: now.wallMs, key: .nothing, value: message.value,
                    headers: UnsafeBufferPointer(start: nil, count: 0), letterRoom: publisher.deadLetterBudget, now: now
                )
                if case .noLetterRoom = receipt {
                    answers.append(false)
                    continue
                }
                guard case .deadLetter(let letter, let reason, let detail) = receipt else {
                    Issue.record("expected a dead letter, not \(receipt)")
                    return
                }
                let name = "requests" as StaticString
                let place = RequestPlace(
                    topic: UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), partition: 0,
                    offset: nextOffset, index: 0)
                publisher.publishDeadLetter(
                    of: message, at: place, id: letter, reason: reason, detail: detail, now: now)
                answers.append(true)
            }
        }
        return answers
    }

    /// The headers of a topic's first records, in their order.
    func headers(of topic: String, count: Int = 1) throws -> [[String: String]] {
        var all: [[String: String]] = []
        try readFirst(of: topic, count: count) { message in
            var headers: [String: String] = [:]
            message.forEachHeader { name, value in
                headers[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
            }
            all.append(headers)
        }
        return all
    }

    /// The headers of the retry records, which are all in one tier.
    func retryHeaders(count records: Int = 1) throws -> [[String: String]] {
        let tier = try #require(try tiers.first { try count($0) > 0 })
        #expect(try count(tier) == records)
        return try headers(of: tier, count: records)
    }

    private func readFirst(of topic: String, count: Int = 1, _ body: (borrowing Message) -> Void) throws {
        let reader = try OffsetReader(ClusterSettings(bootstrapServers: cluster.bootstrapServers), fetchKilobytes: 64)
        try reader.start(TopicPartition(topic, 0), at: 0)
        var left = count
        while left > 0 {
            let hasCome = reader.next(timeoutMs: 40_000) { _, message in
                body(message)
                left -= 1
            } trouble: { _, _, _ in
            }
            guard hasCome else {
                throw ChildProcess.Failure.timedOut(waitingFor: "the first record of \(topic)", output: "")
            }
        }
    }

    func turn() {
        turns += 1
        machine.advance(now: now)
        // A deferred notification waits for a commit that names it.
        let commits = machine.takeCommit(of: .requests, now: now)
        if !commits.isEmpty {
            machine.commitFinished(of: .requests, commits.map { _ in .acknowledged }, now: now)
        }
        publisher.acknowledge(&machine, now: now)
        publisher.publish(&machine, now: now)
    }

    /// Runs a turn only when the publisher's descriptor or deadline requires one.
    func run(_ what: String, seconds: Double = ChildProcess.patience, until condition: () throws -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: seconds)
        turn()
        while try !condition() {
            guard Date() < deadline else {
                throw ChildProcess.Failure.timedOut(
                    waitingFor: what, output: "settled \(settled), refused \(publisher.refusedCount)\n\(log.lines)")
            }
            var pause = 0.5
            if let next = publisher.nextDeadlineNs { pause = min(pause, Double(next - now.ns) / 1e9) }
            _ = wakeUp.wait(until: Date(timeIntervalSinceNow: max(0, pause)))
            turn()
        }
    }

    /// How many records a topic holds.
    func count(_ topic: String) throws -> Int {
        try logRange(of: TopicPartition(topic, 0), cluster.bootstrapServers).count
    }

    func lines(containing text: String) -> [String] { log.lines.filter { $0.contains(text) } }
}

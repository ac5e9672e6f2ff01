import Configuration
import Delivery
import Foundation
import Kafka
import Observability
import PushRecords
import TestSupport
import Testing

@testable import Worker

/// A machine without apps, whose every request ends at once with a result, and its publisher, on in-process brokers.
final class PublisherScene {
    let cluster: MockCluster
    let wakeUp = WakeUp()
    let publisher: RecordPublisher
    let results: String
    let deadLetters: String
    let log = MemorySink()
    private let topics: Topics
    private var machine: DeliveryMachine
    private let id: PartitionID
    private var nextOffset: Int64 = 0
    /// Alarms that were due although nothing came of them.
    private(set) var turns = 0

    init(producer properties: [UserProperty] = []) throws {
        cluster = try MockCluster()
        let name = KafkaBroker.uniqueName("publisher")
        results = "\(name).results"
        deadLetters = "\(name).dead-letters"
        var configuration = WorkerConfiguration(
            kafka: KafkaSettings(bootstrapServers: cluster.bootstrapServers), apps: [])
        configuration.kafka.producerProperties = properties
        configuration.results.topic = results
        configuration.deadLetters.topic = deadLetters
        configuration.unregistered.topic = "\(name).unregistered"
        for topic in [results, deadLetters, configuration.unregistered.topic] + configuration.retry.tiers.map(\.topic) {
            try cluster.create(topic, partitions: 1)
        }
        let settings = try configuration.cluster()
        publisher = try RecordPublisher(
            configuration, apps: [], cluster: settings, wakeUpDescriptor: wakeUp.descriptor,
            logger: Logger(sink: log))
        try? publisher.warmUp(timeoutMs: 10_000)
        topics = try Topics(settings)
        machine = DeliveryMachine(settings: configuration.machineSettings, apps: [])
        id = machine.assign(
            topic: "requests", partition: 0, role: .requests(weight: 1), committedOffset: nil,
            metadata: UnsafeRawBufferPointer(start: nil, count: 0))
    }

    var now: DeliveryTime {
        let (ns, wallMs) = Logger.systemClock()
        return DeliveryTime(ns: ns, wallMs: wallMs)
    }

    var settled: Int { Int(machine.counters.notificationsSettled) }

    func isWritable(_ target: ProductionTarget) -> Bool { machine.isWritable(target) }

    /// Requests that are answered `invalid`, as no app has their topic.
    func request(_ count: Int) {
        let token = Array(String(repeating: "ab", count: 32).utf8)
        let value = Array(#"{"aps":{}}"#.utf8)
        for _ in 0..<count {
            let isTaken = token.withUnsafeBytes { token in
                value.withUnsafeBytes { value in
                    let receipt = machine.receive(
                        id, offset: nextOffset, timestampMs: now.wallMs, key: token, value: value,
                        headers: UnsafeBufferPointer(start: nil, count: 0), now: now)
                    if case .taken = receipt { return true }
                    return false
                }
            }
            #expect(isTaken)
            nextOffset += 1
        }
    }

    func turn() {
        turns += 1
        machine.advance(now: now)
        publisher.serve(&machine, now: now)
        publisher.publish(&machine, now: now)
    }

    /// Turns when the publisher's descriptor or its deadline says so, and at no other time.
    func run(_ what: String, seconds: Double = 30, until condition: () throws -> Bool) throws {
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
        let range = try topics.range(of: TopicPartition(topic, 0), timeoutMs: 10_000)
        return Int(range.upperBound - range.lowerBound)
    }

    var allLines: [String] { log.lines }

    func lines(containing text: String) -> [String] { log.lines.filter { $0.contains(text) } }
}

import Configuration
import Delivery
import Foundation
@testable import Kafka
import Observability
import PushRecords
import TestSupport
import Testing

@testable import Worker

/// Producing, rejections and repeats, on librdkafka's in-process brokers.
@Suite(.waiting) struct PublisherTests {
    @Test func `A full producer queue loses no record and repeats none`() throws {
        let scene = try PublisherScene(producer: ["queue.buffering.max.messages": "10", "linger.ms": "30"])
        scene.request(200)
        scene.turn()
        #expect(scene.publisher.unacknowledgedCount == 10, "the queue is full")
        scene.turn()
        try scene.run("all results") { scene.settled == 200 && scene.publisher.isIdle }
        #expect(try scene.count(scene.results) == 200)
    }

    @Test func `A denied topic is reported and probed, and gets all waiting records once access is granted`() throws {
        let scene = try PublisherScene()
        // The broker denies the results and the first two probes.
        scene.cluster.fail(0, with: Array(repeating: .topicAuthorizationFailed, count: 3))
        scene.request(50)
        try scene.run("the refusal") { !scene.publisher.problems(nowNs: scene.now.ns).isEmpty }
        #expect(!scene.isWritable(.results) && scene.isWritable(.deadLetters) && scene.isWritable(.retry(tier: 0)))
        let problem = try #require(scene.publisher.problems(nowNs: scene.now.ns).first)
        #expect(problem.subject == .topic(scene.results))
        #expect(problem.names(.topicAuthorizationFailed))
        #expect(problem.advice == "grant WRITE on topic \(scene.results), or create it if it was deleted")
        let before = scene.turns
        let end = Date(timeIntervalSinceNow: 2.5)
        try scene.run("some time") { Date() > end }
        #expect(scene.turns - before < 60, "no deadline may lie in the past: \(scene.turns - before) turns in 2.5 s")
        #expect(scene.settled == 0)
        #expect(scene.lines(containing: " error ").count + scene.lines(containing: " warning ").count <= 1)
        try scene.run("all results") { scene.settled == 50 && scene.isWritable(.results) }
        #expect(try scene.count(scene.results) == 50)
        #expect(scene.publisher.problems(nowNs: scene.now.ns).isEmpty && scene.publisher.isIdle)
    }

    @Test func `The machine keeps records of a denied topic for which the producer's queue has no room`() throws {
        let scene = try PublisherScene(producer: ["queue.buffering.max.messages": "10"])
        scene.cluster.fail(0, with: Array(repeating: .topicAuthorizationFailed, count: 2))
        scene.request(60)
        try scene.run("the refusal") { !scene.publisher.problems(nowNs: scene.now.ns).isEmpty }
        for _ in 0..<3 {
            scene.turn()
            #expect(scene.publisher.refusedCount + scene.publisher.unacknowledgedCount <= 10)
        }
        try scene.run("all results") { scene.settled == 60 && scene.publisher.isIdle }
        #expect(try scene.count(scene.results) == 60)
    }

    @Test func `A dead letter waits while the unacknowledged dead letters reach their size limit`() throws {
        let scene = try PublisherScene()
        let size = InFlightDeadLetters.limit * 2 / 5
        // Acknowledgements that have arrived by now are handled in the next turn.
        #expect(try scene.offerDeadLetters(4, bytes: size) == [true, true, false, false])
        try scene.run("the two") { scene.settled == 2 && scene.publisher.isIdle }
        #expect(try scene.offerDeadLetters(3, bytes: size) == [true, true, false])
        try scene.run("these two") { scene.settled == 4 && scene.publisher.isIdle }
        #expect(
            try scene.offerDeadLetters(2, bytes: InFlightDeadLetters.limit + 1) == [true, false],
            "a dead letter above the limit is taken alone")
    }

    /// The broker rejects the result in its batch, alone and reduced. A fourth rejection is of the dead letter, which
    /// has a reduced form, too.
    @Test(arguments: [3, 4])
    func `A result that the broker rejects in every form becomes a dead letter and blocks nothing`(refusals: Int) throws
    {
        let scene = try PublisherScene()
        scene.cluster.fail(0, with: Array(repeating: .messageTooLarge, count: refusals))
        scene.request(1)
        try scene.run("the dead letter") { scene.settled == 1 && scene.publisher.isIdle }
        #expect(try scene.count(scene.results) == 0)
        #expect(try scene.count(scene.deadLetters) == 1)
        #expect(scene.publisher.problems(nowNs: scene.now.ns).isEmpty && scene.isWritable(.results))
        scene.request(5)
        try scene.run("the next results") { scene.settled == 6 }
        #expect(try scene.count(scene.results) == 5)
    }

    /// The smallest queue that the worker accepts holds the value, but not the headers of the dead letter.
    @Test func `A dead letter that is too large for the producer is written in its reduced form`() throws {
        let scene = try PublisherScene(
            producer: ["message.max.bytes": "1048576", "queue.buffering.max.kbytes": "1024"])
        let size = 1_048_576 - 100
        #expect(try scene.offerDeadLetters(1, bytes: size) == [true])
        try scene.run("the dead letter") { scene.settled == 1 && scene.publisher.isIdle }
        #expect(try scene.count(scene.deadLetters) == 1)
        #expect(try scene.headers(of: scene.deadLetters)[0]["push-dlq-truncated"] == "\(size)")
        #expect(scene.publisher.problems(nowNs: scene.now.ns).isEmpty && scene.isWritable(.deadLetters))
    }

    @Test func `A single record that the broker rejects becomes a dead letter and blocks nothing`() throws {
        let scene = try PublisherScene()
        func problems() -> [Problem] { scene.publisher.problems(nowNs: scene.now.ns) }
        // The broker rejects the batch and the first record alone, and accepts the other records.
        scene.cluster.fail(0, with: [.invalidRecord, .invalidRecord, .none, .none])
        scene.request(3)
        try scene.run("the two others") {
            scene.settled == 2 && scene.isWritable(.results) && problems().map(\.kind) == [.refusingSingle]
        }
        // The repeat of the rejected record waits for the clock, and other records do not wait for the repeat.
        scene.stoppedNs = scene.now.ns
        scene.request(1)
        try scene.run("one more result") { scene.settled == 3 }
        scene.cluster.fail(0, with: [.policyViolation])
        scene.stoppedNs = nil
        try scene.run("the refusal beside others") { problems().first?.names(.policyViolation) == true }
        scene.stoppedNs = scene.now.ns
        scene.request(1)
        try scene.run("one more result") { scene.settled == 4 }
        scene.cluster.fail(0, with: [.invalidRecord])
        scene.stoppedNs = nil
        try scene.run("the dead letter") { scene.settled == 5 && scene.publisher.isIdle }
        #expect(try scene.count(scene.results) == 4 && scene.count(scene.deadLetters) == 1)
        let headers = try scene.headers(of: scene.deadLetters)[0]
        #expect(headers["push-dlq-reason"] == "output-refused" && headers["push-dlq-offset"] == "0", "\(headers)")
        #expect(scene.publisher.counts(\.rejectedCount).map(\.topic) == [scene.results])
        #expect(scene.lines(containing: "writing a replacement").count == 1)
        #expect(scene.publisher.problems(nowNs: scene.now.ns).isEmpty && scene.isWritable(.results))
    }

    @Test func `A new producer writes each unwritten record of the failed producer once`() throws {
        let scene = try PublisherScene(producer: ["linger.ms": "2000"])
        scene.request(40)
        scene.turn()
        #expect(scene.publisher.unacknowledgedCount == 40)
        scene.publisher.producer.failFatally(.fencedInstance)
        try scene.run("all results") { scene.settled == 40 }
        #expect(try scene.count(scene.results) == 40)
    }

    /// librdkafka retries without end and logs that only at debug level.
    @Test func `A topic with too few in-sync replicas is reported until it accepts records`() throws {
        let scene = try PublisherScene()
        scene.request(1)
        try scene.run("a first result") { scene.settled == 1 }
        let notEnoughReplicas = KafkaCode(rawValue: 19)
        scene.cluster.fail(0, with: Array(repeating: notEnoughReplicas, count: 20))
        scene.request(1)
        scene.turn()
        #expect(scene.publisher.unacknowledgedCount == 1)
        #expect(scene.publisher.problems(nowNs: scene.now.ns).isEmpty)
        scene.lateNs = AcknowledgementWatch.namedNs
        let problem = try #require(scene.publisher.problems(nowNs: scene.now.ns).first)
        #expect(problem.subject == .topic(scene.results) && problem.kind == .unacknowledged)
        #expect(problem.advice.contains("min.insync.replicas"))
        #expect(scene.publisher.problems(nowNs: scene.now.ns).count == 1, "other topics have no problem")
        #expect(
            scene.publisher.refusedCount == 0 && scene.log.lines.isEmpty,
            "neither a rejection nor a log line reports it")
        try scene.run("the result") { scene.settled == 2 }
        #expect(scene.publisher.problems(nowNs: scene.now.ns).isEmpty)
    }

    /// A paused app. The worker defers each of its requests to a retry tier.
    private static let paused = AppRoute(
        name: "shop", environment: .production, bundleIDs: ["com.example.shop"], isPaused: true)

    @Test(arguments: [false, true])
    func `A retry record that a new producer writes again is in doubt if the broker may already have it`(wasSent: Bool)
        throws
    {
        // The producer waits a minute before it repeats an unanswered request.
        let scene = try PublisherScene(
            producer: wasSent ? ["retry.backoff.ms": "60000"] : ["linger.ms": "2000"], apps: [Self.paused])
        if wasSent { scene.cluster.fail(0, with: [.transport]) }
        scene.request(1)
        try scene.run("the connection's end with a request in the broker's hands, or a record in the queue") {
            wasSent ? !scene.lines(containing: "Disconnected").isEmpty : scene.publisher.unacknowledgedCount == 1
        }
        scene.publisher.producer.failFatally(.fencedInstance)
        try scene.run("the retry record") { scene.settled == 1 && scene.publisher.isIdle }
        let headers = try scene.retryHeaders()[0]
        let count = wasSent ? "1" : "0"
        #expect(headers["push-retry-sends"] == count && headers["push-retry-in-doubt"] == count, "\(headers)")
    }

    @Test func `A retry record that was acknowledged without an offset is in doubt when it is written again`() throws {
        let scene = try PublisherScene(producer: ["linger.ms": "0", "batch.num.messages": "1"], apps: [Self.paused])
        try scene.cluster.setRoundTrip(milliseconds: 300)
        // NOT_ENOUGH_REPLICAS
        scene.cluster.fail(0, with: [KafkaCode(rawValue: 19)])
        scene.request(3)
        try scene.run("the retry records") { scene.settled == 3 && scene.publisher.isIdle }
        let headers = try scene.retryHeaders(count: 3)
        #expect(headers.map { $0["push-retry-in-doubt"] } == ["0", "0", "1"], "\(headers)")
        #expect(!scene.lines(containing: "acknowledged without an offset").isEmpty)
        #expect(scene.lines(containing: "topic is writable again").isEmpty)
    }
}

@testable import Configuration
import Foundation
import Kafka
import Observability
import PushRecords
import PushTransport
import TLS
import TestSupport
import Testing

@testable import Delivery
@testable import Worker

/// The problems that a worker reports, and the log lines about them.
struct ProblemTests {
    @Test func `The advice for a refused login names the SASL settings, or SCRAM if this librdkafka cannot use it`() {
        let refused = KafkaError(.authentication, "SASL authentication error with mechanism SCRAM-SHA-512")
        #expect(Advice.connecting(refused, isSCRAMCorrect: true).advice.hasPrefix("check sasl.mechanism"))
        #expect(Advice.connecting(refused, isSCRAMCorrect: false).advice.contains("2.6.1"))
        for (text, words) in [
            ("PLAIN", "check sasl.mechanism"), ("OAUTHBEARER token", "check the token endpoint"),
            (#"{"status":"invalid_token"}"#, "kafka.oauth.command"),
        ] {
            #expect(Advice.connecting(KafkaError(.authentication, text), isSCRAMCorrect: false).advice.contains(words))
        }
        #expect(Advice.connecting(KafkaError(.transport, "refused")).advice.hasPrefix("check kafka.bootstrap_servers"))
    }

    @Test(arguments: [("1213486160", "HTTP"), ("352518912", "a TLS alert")])
    func `A problem names the protocol of an answer that is not Kafka's`(size: String, name: String) {
        let text = "Receive failed: Invalid response size \(size) (0..100000000): increase receive.message.max.bytes"
        #expect(Advice.connecting(KafkaError(.transport, text)).cause == "the port answers with \(name)")
    }

    @Test(arguments: [
        (660_000, "this machine's clock is 11 minutes ahead of the brokers' clocks: "),
        (-864_000_000, "this machine's clock is 240 hours behind the brokers' clocks: "),
    ])
    func `A wrong clock is described by its difference`(aheadMs: Int64, text: String) {
        #expect(Problem(clockAheadMs: aheadMs).text.hasPrefix(text))
    }

    private static let second: Int64 = 1_000_000_000

    private func update(
        _ list: inout ProblemList, _ problems: [Problem], atSeconds seconds: Int64
    ) -> [ProblemList.Line] {
        list.update(problems, nowNs: seconds * Self.second, nowMs: 1_000_000 + seconds * 1_000)
    }

    private func since(_ seconds: Int64, _ problem: Problem) -> Problem {
        var problem = problem
        problem.sinceMs = 1_000_000 + seconds * 1_000
        return problem
    }

    @Test func `A problem is logged when it begins, every ten seconds while it lasts, and when it is over`() {
        var list = ProblemList()
        let problem = Problem(.topic("a"), .reading, "it may not be read", "allow it")
        #expect(update(&list, [], atSeconds: 0) == [])
        #expect(update(&list, [problem], atSeconds: 1) == [.lasts(since(1, problem), forMs: 0)])
        for step in 2..<11 as Range<Int64> { #expect(update(&list, [problem], atSeconds: step) == []) }
        #expect(update(&list, [problem], atSeconds: 12) == [.lasts(since(1, problem), forMs: 11_000)])
        #expect(list.problems == [since(1, problem)])
        #expect(update(&list, [], atSeconds: 13) == [.isOver(.topic("a"), afterMs: 12_000)])
        #expect(list.problems.isEmpty)
        #expect(update(&list, [], atSeconds: 14) == [])
    }

    @Test func `A certificate that expires soon is logged once a day`() {
        var list = ProblemList()
        let problem = Problem(.app("shop"), .expiring, "its certificate expires on 2026-12-01", "put a new one there")
        for (seconds, isLogged) in [(1, true), (86_400, false), (86_401, true)] as [(Int64, Bool)] {
            let line = ProblemList.Line.lasts(since(1, problem), forMs: (seconds - 1) * 1_000)
            #expect(update(&list, [problem], atSeconds: seconds) == (isLogged ? [line] : []))
        }
    }

    @Test func `A certificate causes one warning in its last 30 days and a problem in its last seven`() throws {
        let day: Int64 = 86_400_000
        let issued = try CertificateAuthority().issueClient(bundleID: "com.example.shop", validForDays: 100)
        let form = CertificateCredential.Form.pem(certificate: .text(issued.certificatePEM + issued.keyPEM), key: nil)
        let app = try LoadedApp(.withCertificate(form))
        let endsMs = try #require(app.certificate).notAfterMs
        let sink = MemorySink()
        var health = AppHealth()
        func isExpiring(daysBefore days: Int64) -> Bool {
            var apps = ConfiguredApps([app])
            apps.rows[0].standing.connections.open = 1
            let now = DeliveryTime(ns: 0, wallMs: endsMs - days * day)
            let log = EventLog(logger: Logger(sink: sink.write), names: ["shop"])
            health.update(apps, [DeliveryCounters.App(tiers: 0)], log, now)
            return health.problems(apps, deadTokens: "t", now).map(\.kind) == [.expiring]
        }
        for (days, warnings, isProblem) in [
            (31, 0, false), (30, 1, false), (29, 1, false), (8, 1, false), (7, 1, true), (-1, 1, true),
        ] as [(Int64, Int, Bool)] {
            #expect(isExpiring(daysBefore: days) == isProblem, "\(days)")
            #expect(sink.lines.count == warnings, "\(days)")
        }
    }

    @Test func `A problem continues when its text changes, and is replaced without an end when its kind changes`() {
        var list = ProblemList()
        _ = update(&list, [Problem(.kafka, .kafkaUnreachable, "1 record", "look")], atSeconds: 1)
        let reworded = Problem(.kafka, .kafkaUnreachable, "2 records", "look on")
        #expect(update(&list, [reworded], atSeconds: 2) == [])
        #expect(list.problems == [since(1, reworded)])
        let other = Problem(.kafka, .topicsMissing, "no broker", "look on")
        #expect(update(&list, [other], atSeconds: 3) == [.lasts(since(3, other), forMs: 0)])
        #expect(update(&list, [], atSeconds: 4) == [.isOver(.kafka, afterMs: 1_000)])
    }

    @Test func `Problems beyond the limit are counted, and many of one kind do not hide another kind`() {
        var list = ProblemList()
        let many =
            (0..<200).map { Problem(.topic("\($0)"), .reading, "gone", "create it") }
            + (0..<200).map { Problem(.app("\($0)"), .unconnected, "refused", "look") }
        let last = Problem(.app("shop"), .credential, "Apple refuses it", "make a new key")
        #expect(update(&list, many + [last], atSeconds: 1).count == 51)
        #expect(list.leftOut == 350)
        // The first of each kind, in the order in which they came.
        #expect(
            list.problems.map(\.subject) == (0..<25).map { .topic("\($0)") } + (0..<25).map { .app("\($0)") }
                + [.app("shop")])
        // Problems that lose their place in the list are not over.
        let lines = update(&list, many.reversed(), atSeconds: 2)
        #expect(list.problems.first?.subject == .app("199") && list.leftOut == 350)
        #expect(lines.count { if case .isOver = $0 { true } else { false } } == 1)
    }

    @Test func `Records that retention deleted before they were read are reported for ten minutes`() {
        var lost = LostRecords()
        let (one, two) = (TopicPartition("retry", 0), TopicPartition("retry", 1))
        func texts(_ seconds: Int64) -> [String] {
            lost.problems(nowNs: seconds * Self.second).map { "\($0.subject) \($0.text.prefix { $0 != " " })" }
        }
        lost.note(one, offsets: 0, nowNs: 0)
        #expect(texts(0).isEmpty)
        lost.note(one, offsets: 1_331, nowNs: Self.second)
        lost.note(two, offsets: 5, nowNs: 2 * Self.second)
        lost.note(one, offsets: 9, nowNs: 300 * Self.second)
        #expect(texts(300) == ["partition retry/0 1340", "partition retry/1 5"])
        #expect(texts(602) == ["partition retry/0 1340"])
        #expect(texts(900).isEmpty)
        // A later loss is counted from zero.
        lost.note(one, offsets: 2, nowNs: 901 * Self.second)
        #expect(texts(901) == ["partition retry/0 2"])
        lost.note(one, offsets: 3, byDeletion: true, nowNs: 902 * Self.second)
        let text = lost.problems(nowNs: 903 * Self.second).first?.text
        #expect(text == "up to 5 offsets were lost when topic retry was deleted or truncated")
    }

    @Test func `The article with the runbooks has a section for each kind of problem`() throws {
        let headings = try Repository.text("Sources/Worker/Worker.docc/Runbooks.md").split(separator: "\n")
            .filter { $0.hasPrefix("### ") }.flatMap { $0.split { " `,".contains($0) } }
        for kind in Problem.Kind.allCases {
            #expect(headings.contains { $0 == kind.rawValue }, "\(kind.rawValue) has no section in Runbooks.md")
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `Without Kafka the worker is degraded from the start, and the lag is unknown`() throws {
        var configuration = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "127.0.0.1:1"), apps: [])
        configuration.admin.listen = nil
        let worker = try PushWorker(configuration, logger: Logger(sink: MemorySink().write))
        let board = worker.pages.board
        let thread = Thread { _ = try? worker.run() }
        thread.start()
        try #require(waitUntil { !board.newest.problems.isEmpty })
        let metrics = MetricsText(board.newest, ProcessFigures()).text
        #expect(board.newest.problems.map(\.kind) == [.kafkaUnreachable])
        #expect(metrics.contains("\napns_worker_degraded 1\n") && !metrics.contains("lag_records{"))
        worker.stop()
        #expect(waitUntil { thread.isFinished })
    }

    @Test func `An app has a problem while most of its notifications expire`() throws {
        let apps = ConfiguredApps([try LoadedApp(.withToken(key: .text(try SelfSigned.privateKey())))])
        var health = AppHealth()
        var counters = DeliveryCounters.App(tiers: 0)
        func expired(seconds: Int64, _ expired: Int, accepted: Int) -> String? {
            counters.outcomes[Outcome.expired.index] += expired
            counters.outcomes[Outcome.accepted.index] += accepted
            let now = DeliveryTime(ns: seconds * 1_000_000_000, wallMs: 0)
            health.update(apps, [counters], EventLog(logger: Logger(sink: MemorySink().write), names: ["shop"]), now)
            return health.problems(apps, deadTokens: "t", now).first { $0.kind == .expired }?.text
        }
        #expect(expired(seconds: 0, 500, accepted: 0) == nil, "the first update has no earlier counts")
        #expect(expired(seconds: 10, 19, accepted: 0) == nil, "there are too few notifications")
        #expect(expired(seconds: 20, 50, accepted: 50) == nil)
        #expect(expired(seconds: 25, 51, accepted: 0) == nil, "the period is not over")
        let text = "51 of the app's last 101 notifications expired before APNs accepted them"
        #expect(expired(seconds: 30, 0, accepted: 50) == text)
        #expect(expired(seconds: 40, 0, accepted: 0) == text, "no notification has ended since")
        #expect(expired(seconds: 50, 0, accepted: 1) == nil)
    }

    @Test func `Several unanswered notifications of a host are a problem, a single one is not`() throws {
        let app = try LoadedApp(.withToken(key: .text(try SelfSigned.privateKey())))
        func kinds(open: Int, endedBy: String? = nil) -> [Problem.Kind] {
            var apps = ConfiguredApps([app])
            apps.rows[0].status = AppStatus(
                isPaused: false, open: open, ready: 0, handed: open, concurrency: 900, isGuardTripped: false,
                isCredentialRefused: false, isCutOff: false)
            apps.rows[0].standing.connections.open = 1
            apps.rows[0].standing.unanswered = Unanswered(host: "apns", endedBy: endedBy)
            return AppHealth().problems(apps, deadTokens: "t", DeliveryTime(ns: 0, wallMs: 0)).map(\.kind)
        }
        #expect(kinds(open: 1) == [] && kinds(open: 2) == [.unanswered])
        #expect(kinds(open: 1, endedBy: "PROTOCOL_ERROR") == [.unanswered], "the host ended three streams in a row")
    }

    @Test func `The lag of a role is known when the lag of each of its partitions is known`() {
        var snapshot = WorkerSnapshot(
            groupID: "g", startedMs: 0, takenMs: 0, apps: [], tiers: [],
            counters: DeliveryCounters(apps: 0, tiers: 0),
            gauges: DeliveryGauges(openNotifications: 0, openBytes: 0, inFlight: []))
        func partition(_ watermark: Int64?, _ logEnd: Int64?) -> WorkerSnapshot.Partition {
            let status = PartitionStatus(
                topic: "a", partition: 0, watermark: watermark, committed: nil, highestReceived: -1,
                span: 0,
                openRecords: 0, openNotifications: 0, isDraining: false)
            return WorkerSnapshot.Partition(role: .requests, status: status, logEnd: logEnd)
        }
        #expect(snapshot.lag(of: .requests) == nil && snapshot.lag(of: .retries) == nil, "no group was joined")
        snapshot.unknownLags = []
        #expect(snapshot.lag(of: .requests) == 0)
        snapshot.partitions = [partition(90, 100), partition(nil, 7), partition(9, 5)]
        #expect(snapshot.lag(of: .requests) == 17)
        snapshot.partitions.append(partition(90, nil))
        #expect(snapshot.lag(of: .requests) == nil)
        #expect(snapshot.lag(of: .retries) == 0)
        snapshot.partitions = []
        snapshot.unknownLags = [.requests]
        #expect(snapshot.lag(of: .requests) == nil)
        #expect(!MetricsText(snapshot, .read()).text.contains("apns_worker_lag_records{role=\"requests\"}"))
    }
}

/// The problems that one group has with reading, and how long they last.
struct ReadingProblemsTests {
    private let topic = "apns.requests"
    private var partition: TopicPartition { TopicPartition(topic, 3) }
    private var problems = ReadingProblems(ofGroup: "apns")

    private func at(_ seconds: Int64) -> DeliveryTime {
        DeliveryTime(ns: seconds * 1_000_000_000, wallMs: seconds * 1_000)
    }

    private mutating func count(at seconds: Int64, counts: Bool = true) -> Int {
        problems.all(at(seconds)) { _ in counts }.count
    }

    @Test mutating func `A problem of reading lasts 20 seconds after its last report`() {
        var found: [Int] = []
        problems.note(.partition(partition), .transport, isOfFetch: true, at(1))
        problems.note(.partition(partition), .transport, isOfFetch: true, at(15))
        for seconds in [34, 35] as [Int64] { found.append(count(at: seconds)) }
        problems.note(.partition(partition), .transport, isOfFetch: true, at(40))
        found.append(count(at: 40))
        #expect(found == [1, 0, 1])
    }

    @Test mutating func `A denied read is a problem while its partition is assigned`() {
        problems.note(.partition(partition), .topicAuthorizationFailed, isOfFetch: true, at(10))
        var found = [count(at: 100)]
        for counts in [false, true] { found.append(count(at: 100, counts: counts)) }
        #expect(found == [1, 0, 0])
    }

    @Test mutating func `A problem with committed offsets has the number of further partitions`() throws {
        var found: [[String]] = []
        for number in [3, 4, 4, 5] as [Int32] { problems.noteMissingOffset(TopicPartition(topic, number), at(1)) }
        found.append(problems.all(at(2)).map(\.text))
        // A commit by another program may skip records, so it replaces the problem.
        problems.noteForeignCommit(partition, 7, at(3))
        problems.noteMissingOffset(TopicPartition(topic, 4), at(4))
        found.append(problems.all(at(5)).map(\.text))
        problems.noteForeignCommit(TopicPartition(topic, 4), 9, at(6))
        for seconds in [7, 606] as [Int64] { found.append(problems.all(at(seconds)).map(\.text)) }
        try #require(found.map(\.count) == [1, 1, 1, 0])
        let texts = found.flatMap(\.self)
        #expect(texts[0].contains("no committed offset for ") && texts[0].hasSuffix("(further partitions: 2)"))
        #expect(texts[1].contains("offset 7 of \(partition) ") && !texts[1].contains("further"))
        #expect(texts[2].contains("offset 9 of ") && texts[2].hasSuffix("(further partitions: 1)"))
    }

    @Test mutating func `A topic that was missing is a problem until the cluster has it again`() {
        problems.note(.topic(topic), .unknownTopicOrPartition, isOfFetch: true, at(10))
        problems.exist(["another"])
        #expect(problems.unavailableTopics == [topic])
        problems.exist(["another", topic])
        #expect(problems.unavailableTopics.isEmpty)
    }
}

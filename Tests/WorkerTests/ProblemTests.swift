import Kafka
import Observability
import Testing

@testable import Delivery
@testable import Worker

/// What is said about what keeps a worker from its work.
struct ProblemTests {
    private static let second: Int64 = 1_000_000_000

    private func update(
        _ list: inout ProblemList, _ faults: [Fault], atSeconds seconds: Double
    ) -> [ProblemList.Line] {
        let nowNs = Int64(seconds * 1e9)
        return list.update(faults, nowNs: nowNs, nowMs: 1_000_000 + nowNs / 1_000_000)
    }

    @Test func `A fault is said once, again every ten seconds, and when it is over`() {
        var list = ProblemList()
        let fault = Fault("topic a", .denied, "it may not be read", "allow it")
        let problem = Problem(fault, sinceMs: 1_001_000)
        #expect(update(&list, [], atSeconds: 0) == [])
        #expect(update(&list, [fault], atSeconds: 1) == [.lasts(problem)])
        for step in 2..<11 { #expect(update(&list, [fault], atSeconds: Double(step)) == []) }
        #expect(update(&list, [fault], atSeconds: 12) == [.lasts(problem)])
        #expect(list.problems == [problem])
        #expect(update(&list, [], atSeconds: 13) == [.isOver(subject: "topic a", afterMs: 12_000)])
        #expect(list.problems.isEmpty)
        #expect(update(&list, [], atSeconds: 14) == [])
    }

    @Test func `A certificate that ends is said once a day`() {
        var list = ProblemList()
        let fault = Fault("app shop", .expiring, "its certificate expires on 2026-12-01", "put a new one in its place")
        let problem = Problem(fault, sinceMs: 1_001_000)
        #expect(update(&list, [fault], atSeconds: 1) == [.lasts(problem)])
        #expect(update(&list, [fault], atSeconds: 86_400) == [])
        #expect(update(&list, [fault], atSeconds: 86_401) == [.lasts(problem)])
        #expect(list.problems == [problem])
    }

    @Test func `A certificate's last 30 days are warned of once, and not where that was said when it was loaded`() {
        let day: Int64 = 86_400_000
        var expiries = CertificateExpiries()
        func begins(_ app: Int, endsDay: Int64, onDay: Int64) -> Bool {
            expiries.beginsToEnd(app, endsMs: endsDay * day, nowMs: onDay * day)
        }
        #expect(!begins(0, endsDay: 100, onDay: 0) && !begins(1, endsDay: 20, onDay: 0))
        #expect(!begins(0, endsDay: 100, onDay: 69))
        #expect(begins(0, endsDay: 100, onDay: 70))
        #expect(!begins(0, endsDay: 100, onDay: 71) && !begins(1, endsDay: 20, onDay: 1))
        // A new one in its place.
        #expect(!begins(0, endsDay: 465, onDay: 72))
        #expect(begins(0, endsDay: 465, onDay: 435))
        for (endsDay, isProblem) in [(8, false), (7, true), (0, true), (-1, true)] as [(Int64, Bool)] {
            #expect(
                CertificateExpiries.isWithin(CertificateExpiries.problemMs, endsMs: endsDay * day, nowMs: 0)
                    == isProblem)
        }
    }

    @Test func `A fault whose words change goes on; a subject with another fault is not over`() {
        var list = ProblemList()
        _ = update(&list, [Fault("kafka", .silent, "1 record", "look")], atSeconds: 1)
        #expect(update(&list, [Fault("kafka", .silent, "2 records", "look on")], atSeconds: 2) == [])
        #expect(list.problems == [Problem(Fault("kafka", .silent, "2 records", "look on"), sinceMs: 1_001_000)])
        let other = Fault("kafka", .unanswered, "no broker", "look on")
        #expect(update(&list, [other], atSeconds: 3) == [.lasts(Problem(other, sinceMs: 1_003_000))])
        #expect(update(&list, [], atSeconds: 4) == [.isOver(subject: "kafka", afterMs: 1_000)])
    }

    @Test func `More than can be named are counted`() {
        var list = ProblemList()
        let faults = (0..<60).map { Fault("topic \($0)", .unreadable, "gone", "create it") }
        #expect(update(&list, faults, atSeconds: 1).count == ProblemList.limit)
        #expect(list.problems.count == ProblemList.limit)
        #expect(list.leftOut == 10)
        #expect(update(&list, faults, atSeconds: 2) == [])
    }

    @Test func `Many faults of one kind hide none of another`() {
        var list = ProblemList()
        func many(_ count: Int) -> [Fault] {
            (0..<count).map { Fault("topic \($0)", .unreadable, "gone", "create it") }
                + (0..<count).map { Fault("app \($0)", .topicCredential("t\($0)"), "refused", "look") }
        }
        let last = Fault("app shop", .credential, "Apple refuses it", "make a new key")
        _ = update(&list, many(200) + [last], atSeconds: 1)
        #expect(list.problems.count == ProblemList.limit && list.leftOut == 351)
        #expect(list.problems.last?.subject == "app shop")
        // The first of each kind, in the order in which they came.
        let subjects = list.problems.map(\.subject)
        #expect(subjects == (0..<25).map { "topic \($0)" } + (0..<24).map { "app \($0)" } + ["app shop"])
        // Those that make room for another kind are not over.
        let newer = (0..<30).map { Fault("group \($0)", .unjoined, "not joined", "look") }
        let lines = update(&list, many(200) + [last] + newer, atSeconds: 2)
        #expect(list.problems.contains { $0.subject == "group 0" } && list.leftOut == 381)
        #expect(lines.allSatisfy { if case .lasts = $0 { true } else { false } })
    }

    // MARK: Lost records

    @Test func `Records that were gone before they were read are counted and named for ten minutes`() {
        var lost = LostRecords()
        let (one, two) = (TopicPartition("retry", 0), TopicPartition("retry", 1))
        lost.note(one, offsets: 0, nowNs: 0)
        #expect(lost.faults(nowNs: 0).isEmpty)
        lost.note(one, offsets: 1_331, nowNs: Self.second)
        lost.note(two, offsets: 5, nowNs: 2 * Self.second)
        lost.note(one, offsets: 9, nowNs: 300 * Self.second)
        let faults = lost.faults(nowNs: 300 * Self.second)
        #expect(Set(faults.map(\.subject)) == ["partition retry/0", "partition retry/1"])
        #expect(faults.first { $0.subject == "partition retry/0" }?.text.hasPrefix("1340 offsets were gone") == true)
        #expect(faults.allSatisfy { $0.kind == .lost && $0.advice.contains("retention.bytes to -1") })
        #expect(lost.faults(nowNs: 602 * Self.second).map(\.subject) == ["partition retry/0"])
        #expect(lost.faults(nowNs: 900 * Self.second).isEmpty)
        // A later loss is counted from nothing.
        lost.note(one, offsets: 2, nowNs: 901 * Self.second)
        #expect(lost.faults(nowNs: 901 * Self.second).first?.text.hasPrefix("2 offsets") == true)
        lost.note(one, offsets: .max, nowNs: 902 * Self.second)
        #expect(lost.faults(nowNs: 902 * Self.second).count == 1)
    }

    @Test func `Losses of many partitions take a bounded room`() {
        var lost = LostRecords()
        for number in 0..<Int32(LostRecords.limit + 10) {
            lost.note(TopicPartition("retry", number), offsets: 1, nowNs: 0)
        }
        #expect(lost.faults(nowNs: 0).count == LostRecords.limit)
    }

    @Test func `A lag that is not known of all partitions is not known`() {
        var snapshot = WorkerSnapshot(
            groupID: "g", startedMs: 0, takenMs: 0, apps: [], tiers: [],
            counters: DeliveryCounters(apps: 0, tiers: 0),
            gauges: DeliveryGauges(openNotifications: 0, openBytes: 0, inFlight: [], waiting: [], productions: 0))
        func partition(_ watermark: Int64?, _ logEnd: Int64?) -> WorkerSnapshot.Partition {
            let status = PartitionStatus(
                topic: "a", partition: 0, watermark: watermark, committed: nil, reach: nil, highestReceived: -1,
                highestArrived: -1,
                span: 0,
                openRecords: 0, openNotifications: 0, isDraining: false)
            return WorkerSnapshot.Partition(role: .requests, status: status, logEnd: logEnd)
        }
        #expect(snapshot.lag(of: .requests) == 0)
        snapshot.partitions = [partition(90, 100), partition(nil, 7), partition(9, 5)]
        #expect(snapshot.lag(of: .requests) == 17)
        snapshot.partitions.append(partition(90, nil))
        #expect(snapshot.lag(of: .requests) == nil)
        #expect(snapshot.lag(of: .retries) == 0)
        // Offsets come from outside.
        snapshot.partitions = [partition(.min, .max), partition(.max, 0)]
        #expect(snapshot.lag(of: .requests) == nil)
        snapshot.partitions = [partition(0, .max), partition(0, .max)]
        #expect(snapshot.lag(of: .requests) == .max)
        snapshot.partitions = []
        snapshot.unknownLags = [.requests]
        #expect(snapshot.lag(of: .requests) == nil)
        #expect(!MetricsText(snapshot, .read()).text.contains("apns_worker_lag_records{role=\"requests\"}"))
    }
}

/// What one group's reading suffers from, and until when.
struct ReadingProblemsTests {
    private let topic = "apns.requests"
    private var partition: TopicPartition { TopicPartition(topic, 3) }
    private var problems = ReadingProblems(ofGroup: "apns", logger: Logger(sink: MemorySink()))

    private func at(_ seconds: Int64) -> DeliveryTime {
        DeliveryTime(ns: seconds * 1_000_000_000, wallMs: seconds * 1_000)
    }

    private mutating func sinceSeconds(at seconds: Int64, counts: Bool = true) -> [Int64] {
        problems.all(at(seconds)) { _ in counts }.map { $0.sinceNs / 1_000_000_000 }
    }

    @Test mutating func `A problem that is reported again began when it was reported first, unless it was over`() {
        var since: [[Int64]] = []
        problems.note(.partition(partition), .transport, isOfFetch: true, at(1))
        problems.note(.partition(partition), .transport, isOfFetch: true, at(15))
        for seconds in [34, 35] as [Int64] { since.append(sinceSeconds(at: seconds)) }
        problems.note(.partition(partition), .transport, isOfFetch: true, at(40))
        since.append(sinceSeconds(at: 40))
        #expect(since == [[1], [], [40]])
    }

    @Test mutating func `A denial is reported once, and lasts while its partition is assigned`() {
        problems.note(.partition(partition), .topicAuthorizationFailed, isOfFetch: true, at(10))
        var since = [sinceSeconds(at: 100)]
        for counts in [false, true] { since.append(sinceSeconds(at: 100, counts: counts)) }
        #expect(since == [[10], [], []])
    }

    @Test mutating func `A topic that was missing is a problem until the cluster has it again`() {
        problems.note(.topic(topic), .unknownTopicOrPartition, isOfFetch: true, at(10))
        problems.exist(["another"])
        #expect(problems.unavailableTopics == [topic])
        problems.exist(["another", topic])
        #expect(problems.unavailableTopics.isEmpty)
    }
}

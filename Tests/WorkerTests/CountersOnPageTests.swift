import Foundation
import HTTP2
import PushRecords
import TestSupport
import Testing

@testable import Delivery
@testable import Worker

/// Compares the page /metrics with the counters in memory and with the article about metrics.
struct CountersOnPageTests {
    /// Fills counters, each with a different number.
    private struct Numbers {
        var next: Int

        mutating func one() -> Int {
            next += 1
            return next
        }

        mutating func several(_ count: Int) -> [Int] { (0..<count).map { _ in one() } }

        mutating func time() -> LatencyCounts {
            var times = LatencyCounts()
            times.count(Int64(one()))
            return times
        }

        mutating func reasons() -> [Int] {
            var counts = [Int](repeating: 0, count: 256)
            for code in ReasonCode.allCases { counts[Int(code.rawValue)] = one() }
            return counts
        }

        mutating func app(tiers: Int) -> DeliveryCounters.App {
            var app = DeliveryCounters.App(tiers: tiers)
            app.handed = one()
            app.outcomes = several(Outcome.allCases.count)
            app.reasons = reasons()
            app.inDoubt = one()
            app.resends = one()
            app.sentToOtherEnvironment = one()
            app.retries = several(tiers)
            app.heldByCause = several(DeferralReason.allCases.count)
            app.answerTimes = time()
            app.settleTimes = time()
            return app
        }

        mutating func counters(tiers: Int) -> DeliveryCounters {
            var counters = DeliveryCounters(apps: 1, tiers: tiers)
            counters.apps[0] = app(tiers: tiers)
            counters.recordsReceived = one()
            counters.deadLetters = one()
            counters.notificationsAdmitted = one()
            counters.notificationsSettled = one()
            counters.duplicatesSkipped = one()
            counters.late = one()
            counters.commits = one()
            counters.commitsAcknowledged = one()
            counters.commitsRefused = one()
            counters.mapsCut = one()
            counters.circuitsOpened = one()
            counters.guardsTripped = one()
            counters.offsetsCommitted = Int64(one())
            return counters
        }

        mutating func snapshotApp() -> WorkerSnapshot.App {
            var app = WorkerSnapshot.App(name: "shop", environment: .production)
            app.standing.connections.dialing = one()
            app.standing.connections.open = one()
            app.standing.connections.draining = one()
            app.standing.connections.streams = one()
            app.standing.window = AppTransports.WindowFaults(tooShort: one(), lostAtMost: one())
            app.standing.peerErrors.goAways = several(ErrorCode.labels.count)
            app.standing.peerErrors.resets = several(ErrorCode.labels.count)
            app.standing.tokenIssuedMs = 1
            app.certificateEndsMs = 1
            let reads: [FeedbackStanding.Outcome: Int] = [.complete: one(), .incomplete: one(), .failed: one()]
            app.feedback = FeedbackStanding(tokens: one(), reads: reads)
            return app
        }
    }

    /// A snapshot whose page has a sample of each metric.
    private func snapshot() -> WorkerSnapshot {
        var all = Numbers(next: 1_000_000)
        var snapshot = WorkerSnapshot(
            groupID: "workers", startedMs: 0, takenMs: 0, apps: [all.snapshotApp()], tiers: ["30s", "15m"],
            counters: all.counters(tiers: 2), gauges: DeliveryGauges(openNotifications: 0, openBytes: 0, inFlight: []))
        snapshot.problems = [Problem(.kafka, .kafkaUnreachable, "", "")]
        snapshot.unknownLags = []
        let status = PartitionStatus(
            topic: "apns.requests", partition: 3, watermark: 9, committed: 8, highestReceived: 9, span: 1,
            openRecords: 1, openNotifications: 1, oldestOpenMs: 0, isDraining: false)
        snapshot.partitions = [WorkerSnapshot.Partition(role: .requests, status: status, logEnd: 10)]
        snapshot.memberships[.requests] = (all.one(), all.one())
        var health = BrokerHealth()
        health.take(#"{"brokers":{"b":{"name":"b","rtt":{"avg":9,"cnt":1}}},"msg_cnt":3,"msg_size":400}"#)
        snapshot.clients = [("producer", health)]
        (snapshot.tooLarge, snapshot.rejected) = ([("apns.results", 1)], [("apns.results", 1)])
        return snapshot
    }

    /// The numbers of each property, by its name. Latency counts are represented by their sum.
    private func numbers(of value: some Any, but leftOut: Set<String> = []) -> [(name: String, numbers: [Int])] {
        Mirror(reflecting: value).children.filter { !leftOut.contains($0.label ?? "") }.map { child in
            let name = child.label ?? ""
            switch child.value {
            case let number as any BinaryInteger: return (name, [Int(number)])
            case let numbers as [Int]: return (name, numbers)
            case let counts as [FeedbackStanding.Outcome: Int]: return (name, Array(counts.values))
            case let times as LatencyCounts: return (name, [Int(times.sumMs)])
            default:
                Issue.record("\(type(of: value)).\(name) is not a number; list it in leftOut if it is not a counter")
                return (name, [])
            }
        }
    }

    @Test func `The metrics page contains every counter`() throws {
        let snapshot = snapshot()
        let (app, counters) = (snapshot.apps[0], snapshot.counters)
        var wanted = numbers(of: counters, but: ["apps"]) + numbers(of: counters.apps[0])
        wanted += numbers(of: app.standing.connections)
        wanted += numbers(of: app.standing.peerErrors)
        wanted += numbers(of: try #require(snapshot.memberships[.requests]))
        // Times and states are not counters. The problems on /status show them.
        wanted += numbers(of: app.standing.window, but: ["lastNs"])
        wanted += numbers(of: try #require(app.feedback), but: ["failure", "waiting", "waitingSinceNs"])

        let lines = MetricsText(snapshot, ProcessFigures()).text.split(separator: "\n")
        let values = Set(
            lines.filter { !$0.hasPrefix("#") }.compactMap { $0.split(separator: " ").last.map(String.init) })
        for (name, numbers) in wanted {
            #expect(numbers.contains { $0 > 0 }, "this test must give \(name) a number")
            for number in numbers where number > 0 {
                let isThere = values.contains("\(number)") || values.contains("\(Double(number) / 1_000)")
                #expect(isThere, "\(name) (\(number)) is not on the metrics page")
            }
        }
    }

    @Test func `Each metric in the article about metrics is on the page, with its labels`() throws {
        let rows = try Repository.text("Sources/Worker/Worker.docc/Metrics.md").matches(of: /\n\| (`.+?) \|/)
        let names = rows.flatMap { $0.1.matches(of: /`([a-z_]+)(?:\{([a-z_,]+)\})?`/) }
        #expect(names.count > 50)
        let lines = MetricsText(snapshot(), .read()).text.split(separator: "\n").filter { !$0.hasPrefix("#") }
        for name in names {
            let full = name.1.hasPrefix("process_") ? "\(name.1)" : "apns_worker_\(name.1)"
            let line = lines.first { line in
                ["\(full) ", "\(full){", "\(full)_sum"].contains { line.hasPrefix($0) }
            }
            let labels = line?.matches(of: /([a-z_]+)="/).map(\.1).joined(separator: ",")
            #expect(labels != nil && (name.2 == nil || name.2! == labels!), "\(name.0): \(line ?? "no sample")")
        }
    }

    private static let promtool = ProcessInfo.processInfo.environment["PROMTOOL"] ?? "/usr/bin/promtool"

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: promtool), "no \(promtool) (Debian: prometheus)"))
    func `promtool accepts the metrics page`() throws {
        let check = try ChildProcess(Self.promtool, ["check", "metrics"])
        check.write(MetricsText(snapshot(), .read()).text)
        check.closeInput()
        #expect(try check.wait() == .exited(0), "\(check.text)")
    }
}

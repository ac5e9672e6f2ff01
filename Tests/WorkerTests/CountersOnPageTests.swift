import PushRecords
import Testing

@testable import Delivery
@testable import Worker

/// Every counter is on /metrics, and goes on when an app is removed and comes back.
struct CountersOnPageTests {
    /// What a worker counted, each time another number.
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
            DeliveryCounters.App(
                handed: one(), outcomes: several(Outcome.allCases.count), reasons: reasons(), inDoubt: one(),
                resends: one(), sentToOtherEnvironment: one(), retries: several(tiers),
                heldByCause: several(DeferralReason.allCases.count), answerTimes: time())
        }

        mutating func counters(tiers: Int) -> DeliveryCounters {
            var counters = DeliveryCounters(apps: 2, tiers: tiers)
            counters.apps[0] = app(tiers: tiers)
            counters.apps[1] = app(tiers: tiers)
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
            counters.settleTimes = time()
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
            app.feedback = FeedbackStanding(tokens: one(), reads: several(FeedbackStanding.Outcome.allCases.count))
            return app
        }
    }

    /// The numbers of each variable, by its name; times as their sum.
    private func numbers(of value: some Any, but leftOut: Set<String> = []) -> [(name: String, numbers: [Int])] {
        Mirror(reflecting: value).children.filter { !leftOut.contains($0.label ?? "") }.map { child in
            let name = child.label ?? ""
            switch child.value {
            case let number as any BinaryInteger: return (name, [Int(number)])
            case let numbers as [Int]: return (name, numbers)
            case let times as LatencyCounts: return (name, [Int(times.sumMs)])
            default:
                Issue.record("\(type(of: value)).\(name) is no number: is it a counter?")
                return (name, [])
            }
        }
    }

    /// Each number of one app, and with it that of the other.
    private func sums(of one: some Any, _ other: some Any, but leftOut: Set<String> = []) -> [(String, [Int])] {
        zip(numbers(of: one, but: leftOut), numbers(of: other, but: leftOut)).map { one, other in
            (one.name, zip(one.numbers, other.numbers).map(+))
        }
    }

    @Test func `Each counter is on the page, of an app that came back with what it had before`() throws {
        var all = Numbers(next: 1_000_000)
        let apps = [all.snapshotApp(), all.snapshotApp()]
        let counters = all.counters(tiers: 2)
        var snapshot = WorkerSnapshot(
            groupID: "workers", startedMs: 0, takenMs: 0, apps: apps, tiers: ["30s", "15m"], counters: counters,
            gauges: DeliveryGauges(openNotifications: 0, openBytes: 0, inFlight: []))
        snapshot.apps[0].isRemoved = true

        var wanted = numbers(of: counters, but: ["apps"])
        wanted += sums(of: counters.apps[0], counters.apps[1])
        wanted += sums(of: apps[0].standing.connections, apps[1].standing.connections)
        // When it was last and how it stands are no counters: the problems on /status say so.
        wanted += sums(of: apps[0].standing.window, apps[1].standing.window, but: ["lastNs"])
        let (before, now) = try (#require(apps[0].feedback), #require(apps[1].feedback))
        wanted += sums(of: before, now, but: ["failure", "waiting", "waitingSinceNs"])

        let lines = MetricsText(snapshot, ProcessFigures()).text.split(separator: "\n")
        let values = Set(
            lines.filter { !$0.hasPrefix("#") }.compactMap { $0.split(separator: " ").last.map(String.init) })
        for (name, numbers) in wanted {
            #expect(numbers.contains { $0 > 0 }, "this test gives \(name) no number")
            for number in numbers where number > 0 {
                let isThere = values.contains("\(number)") || values.contains("\(Double(number) / 1_000)")
                #expect(isThere, "\(name) (\(number)) is in no family of the metrics")
            }
        }
    }
}

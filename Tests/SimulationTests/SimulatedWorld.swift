import Bytes
@testable import Delivery
import Foundation
import PushRecords

/// Kafka, APNs and workers in one seeded world that advances in steps of a few milliseconds. Each delivery guarantee is
/// checked wherever it could be violated. The first violation ends the run.
final class SimulatedWorld {
    struct Broken: Error, CustomStringConvertible {
        var description: String
    }

    var random: SplitMix64
    let faults: SimulatedFaults
    let settings: MachineSettings
    /// The currently configured apps.
    var apps: [AppRoute]
    /// The apps at the start and at the end.
    let allApps: [AppRoute]
    /// The names of apps that were removed for a while. Their records are `invalid` meanwhile.
    var everRemoved: Set<String> = []
    let metadataLimit: Int
    /// The maximum number of records read from a partition in one turn.
    let readLimit: Int
    /// The step until which all device tokens belong to the other environment.
    let wrongTokensUntil: Int
    /// Probabilities per step, in percent.
    let reloadChance: Int
    let reachChance: Int
    let crashChance: Int
    let moveChance: Int
    /// Whether some requests end every connection on which they are sent.
    let hasPoison: Bool
    /// The factor by which everything takes longer.
    private(set) var slowness: Int64
    let outageChance: Int
    /// On average once in this many steps, a topic becomes unwritable.
    let deniedChance: Int
    /// Whether the dead-token topic was unwritable. Tokens answered meanwhile may be sent again.
    var wereTokensDenied = false
    let clocksJumped: Bool
    let remakesProducers: Bool
    /// On average once in this many steps, a log is recreated or truncated or loses its first records.
    let changeChance: Int
    /// On average once in this many steps, the commits of a log begin or stop to be refused.
    let denialChance: Int
    /// Whether APNs never processes some requests.
    let hasEndless: Bool
    /// Whether the first app has a counterpart for the other environment, to which bad tokens are forwarded.
    let hasOther: Bool
    /// The apps whose transport uses the binary protocol.
    let binaryNames: Set<String>
    /// Whether notifications that a gateway discards are sent again.
    let resendsDiscarded: Bool
    /// Whether some requests are scheduled.
    let schedules: Bool
    /// The maximum number of records produced in a step.
    let flood: Int
    var logs: [SimulatedLog] = []
    var books: [SimulatedPlace: SimulatedBook] = [:]
    /// The truly settled notifications: their result, retry record or dead letter is in Kafka, or their verdict was
    /// counted.
    var settled: Set<SimulatedPlace> = []
    /// The step in which the worker settled each notification, with its assignment.
    var settledAt: [SimulatedPlace: (step: Int, assignment: Int, chain: Int)] = [:]
    /// The original requests of each record ever written.
    var originals: [SimulatedPlace: [SimulatedPlace]] = [:]
    /// The step in which the last applied commit of each assignment was taken.
    var commitTakenAt: [Int: Int] = [:]
    var assignmentCount = 0
    var workers: [SimulatedWorker] = []
    private var workerCount = 0
    var step = 0
    var ns: Int64 = 1_000_000_000
    let startMs: Int64 = 1_800_000_000_000
    var isCalm = false
    /// Whether a partition with a lost session did not return in time.
    var wasReleased = false
    /// Whether a map was truncated, so that records it omits may be sent again.
    var wasMapCut = false
    var broken: Broken?
    /// The number of events by kind, including those that the machines reported.
    private(set) var happened: [String: Int] = [:]
    /// The last first send by assignment and device.
    var lastFirstSend: [Int: [[UInt8]: SimulatedPlace]] = [:]
    var crashCount = 0
    /// Assignments whose worker continues for a while without owning them, or whose drain was cut short.
    var deadAssignments: Set<Int> = [0]
    /// The time until which no broker answers, or brokers answer everything but writes.
    var kafkaDownUntilMs: Int64 = 0
    var fullUntilMs: Int64 = 0
    /// The number of drains that were cut short.
    var limitCount = 0

    var now: DeliveryTime { DeliveryTime(ns: ns, wallMs: startMs + ns / 1_000_000) }
    var nowMs: Int64 { ns / 1_000_000 }

    /// The kinds of events that must occur in some of a few dozen worlds.
    static let kinds =
        DeferralReason.allCases.filter { $0 != .scheduled }.map { "held: \($0)" }
        + [
            "credential circuit", "topic circuit", "connection circuit", "guard tripped", "GOAWAY", "another GOAWAY",
            "silent connection", "lost connection", "suspect", "metadata refused", "foreign commit", "damaged metadata",
            "Kafka unavailable", "Kafka writes stalled", "clock jump", "producer rebuilt", "dead network", "fenced",
            "request body delayed", "left without a commit", "denied: results", "denied: unregistered",
            "denied: deadLetters", "denied: retry(tier: 0)", "all tiers denied", "log recreated", "log truncated",
            "retention", "commit of other software", "recreation detected by the topic's id", "log changed",
            "overtaken by retention", "resumed", "suspended", "suspended, then assigned to another worker",
            "shared error", "denied commit", "commits impossible", "commits resumed", "cut off from the group",
            "zombie", "endless refusals", "slow answer", "forwarded to the other environment", "gateway: error",
            "gateway: discarded", "gateway: presumed", "scheduled", "scheduled again", "scheduled with expiration 0",
            "scheduled after a clock was set back",
        ]

    init(seed: UInt64) {
        let faults = SimulatedFaults.of(seed: seed)
        random = SplitMix64(seed: seed &* 0x9E37_79B9_7F4A_7C15 ^ 0x1234_5678_9ABC_DEF0)
        self.faults = faults
        var settings = MachineSettings()
        settings.ordering = random.chance(80) ? .device : .none
        settings.tierDelaysMs = [200, 1_000]
        settings.maxAttempts = 3
        settings.maxOpen = .random(in: 8...60, using: &random)
        settings.deviceQueueLimit = random.chance(30) ? 3 : 100
        settings.horizonMargin = random.chance(50) ? 10 : 500
        settings.publishesOnlyFailures = random.chance(20)
        settings.hashSeed = random.next()
        if seed.isMultiple(of: 2) { settings.commitIntervalNs = 200_000_000 }
        settings.suspendedLimitNs = .random(in: 10...60, using: &random) * 1_000_000_000
        if random.chance(15) { settings.maxOpenBytes = .random(in: 8_192...65_536, using: &random) }
        if random.chance(30) { settings.maxAgeMs = Self.shortestAgeMs }
        if !faults.abandonsNobody {
            if random.chance(10) { settings.inDoubt = .abandon }
            if random.chance(20) { settings.resendMax = .random(in: 0...3, using: &random) }
        }
        hasEndless = random.chance(15)
        if hasEndless { settings.maxAgeMs = 0 }
        if random.chance(40) { settings.leaseNs = .random(in: 300...3_000, using: &random) * 1_000_000 }
        if faults.isLong {
            settings.metadataLimit = .random(in: 64...400, using: &random)
            settings.maxOpen = .random(in: 30...300, using: &random)
            settings.maxOpenBytes = 16 << 20
            settings.deviceQueueLimit = 100
        }
        let drawn =
            faults.isLong
            ? settings.metadataLimit : random.chance(25) ? .random(in: 32...44, using: &random) : 4_096
        // A deferral because of a full commit map uses up no attempt and resets the count of refusals. So a
        // notification that is always refused would not end while the map stays full, as it does with 32 to 44 bytes.
        metadataLimit = hasEndless ? max(drawn, 64) : drawn
        flood = faults.isLong ? .random(in: 5...30, using: &random) : 1
        readLimit = random.chance(30) ? 1 : 50
        wrongTokensUntil = random.chance(10) ? 70 : 0
        reloadChance = random.chance(40) ? 5 : 0
        reachChance = random.chance(40) ? 5 : 0
        crashChance = random.chance(30) ? 5 : 1
        moveChance = random.chance(30) ? 15 : 2
        hasPoison = random.chance(faults.poison)
        slowness = [1, 1, 1, 1, 1, 1, 1, 1, 5, 30].randomElement(using: &random)!
        outageChance = random.chance(20) ? 60 : 1_000
        deniedChance = random.chance(20) ? 60 : 4_000
        clocksJumped = random.chance(30) && faults.refusals
        remakesProducers = random.chance(20) && faults.doubts && faults.refusals
        let changesLogs = random.chance(30)
        changeChance = faults.changes && changesLogs ? 40 : .max
        let deniesCommits = random.chance(20)
        denialChance = faults.refusals && deniesCommits ? 30 : .max
        var apps = [Self.shop]
        if random.chance(50) { apps.append(Self.news) }
        if random.chance(30) {
            binaryNames = random.chance(25) ? [Self.news.name, Self.shop.name] : [Self.news.name]
            if apps.count == 1 { apps.append(Self.news) }
        } else {
            binaryNames = []
        }
        let resendsDiscarded = random.chance(90)
        self.resendsDiscarded = faults.abandonsNobody || resendsDiscarded
        schedules = random.chance(40)
        hasOther = random.chance(25)
        if hasOther {
            apps[0].otherEnvironment = Self.development.name
            apps.append(Self.development)
        }
        for index in apps.indices {
            apps[index].rateLimit = random.chance(20) ? .random(in: 20...300, using: &random) : 0
            apps[index].guardPolicy = [.off, .warn, .hold].randomElement(using: &random)!
        }
        settings.includesBadTokens = hasOther
        self.settings = settings
        self.apps = apps
        allApps = apps
        let base = Int64.random(in: 0...1_000, using: &random)
        for partition in 0..<Int32(2) {
            logs.append(
                SimulatedLog(topic: "requests", partition: partition, role: .requests(weight: 1), nextOffset: base))
        }
        logs.append(SimulatedLog(topic: "urgent", partition: 0, role: .requests(weight: 4), nextOffset: 7))
        for delayMs in settings.tierDelaysMs {
            logs.append(SimulatedLog(topic: "retry.\(delayMs)", partition: 0, role: .retry(delayMs: delayMs)))
        }
        // The partitions already have the commit of an earlier owner.
        for log in logs.indices {
            let offset = logs[log].nextOffset
            var writer = CommitMapWriter()
            writer.start(base: offset, limit: settings.metadataLimit)
            writer.finish(horizon: 0)
            logs[log].commit = .init(offset: offset, metadata: writer.text, map: CommitMap(), takenAt: 0, life: 0)
        }
    }

    /// `SIMULATION_TRACE=2` prints the events of log 2.
    private static let traced = ProcessInfo.processInfo.environment["SIMULATION_TRACE"].flatMap { Int($0) }

    func trace(_ log: Int, _ text: () -> String) {
        if log == Self.traced { print("step \(step), \(nowMs) ms: \(text())") }
    }

    func name(_ worker: SimulatedWorker) -> String { "worker \(worker.number)" }

    func breaks(_ rule: @autoclosure () -> String) {
        if broken == nil { broken = Broken(description: "step \(step): \(rule())") }
    }

    func note(_ kind: String) { happened[kind, default: 0] += 1 }

    func addWorker() {
        workerCount += 1
        workers.append(
            SimulatedWorker(
                workerCount, settings, apps: apps,
                capacity: .random(in: faults.isLong ? 10...60 : 1...60, using: &random)))
    }

    static let shop = AppRoute(
        name: "shop", environment: .production, bundleIDs: ["com.example.shop"], guardPolicy: .off)
    static let development = AppRoute(
        name: "shop-dev", environment: .development, bundleIDs: ["com.example.shop"], guardPolicy: .off)
    static let news = AppRoute(
        name: "news", environment: .production, bundleIDs: ["com.example.news"], guardPolicy: .off)

    /// Returns a token of 32 bytes that ends with the name's bytes.
    static func token(_ name: String) -> String {
        let letters = Array("0123456789abcdef")
        return String(repeating: "0", count: 64 - name.utf8.count * 2)
            + String(name.utf8.flatMap { [letters[Int($0 >> 4)], letters[Int($0 & 15)]] })
    }

    // MARK: Run

    func run(steps: Int) throws {
        for _ in 0..<2 { addWorker() }
        for _ in 0..<steps {
            for _ in 0..<(flood > 1 ? Int.random(in: 1...flood, using: &random) : random.chance(40) ? 1 : 0) {
                produceRequest()
            }
            disturb()
            disturbAround()
            try turn()
        }
        isCalm = true
        slowness = 1
        kafkaDownUntilMs = 0
        fullUntilMs = 0
        for worker in workers { (worker.cutOffSinceNs, worker.skewMs) = (nil, 0) }
        // Answers may be slow and devices many, so the limit restarts whenever a notification has ended.
        let patience = 4_000 + flood * 200
        var left = patience
        var progress = 0
        while !isFinished {
            if left % 30 == 0 { heal() }
            // If notifications that wait for a refused commit fill an app's share, its other notifications are deferred
            // until the commit is accepted.
            healDenials(isAll: left < patience / 2)
            left -= 1
            if left % 100 == 0, endedCount > progress {
                progress = endedCount
                left = patience
            }
            guard left > 0 else {
                throw Broken(description: "step \(step): the world makes no progress: \(unfinished)")
            }
            try turn()
        }
        checkEnd()
        if let broken { throw broken }
    }

    private func turn() throws {
        step += 1
        ns += Int64.random(in: 1...(isCalm ? 60 : 15), using: &random) * 1_000_000
        if !isCalm, random.chance(2) { ns += Int64.random(in: 500...6_000, using: &random) * 1_000_000 }
        if isKafkaDown { ns += Int64.random(in: 0...8_000, using: &random) * 1_000_000 }
        assignFree()
        for worker in workers {
            expireSession(worker)
            hear(worker)
            turn(worker)
        }
        if let broken { throw broken }
    }

    private var isFinished: Bool { logs.allSatisfy(\.isDone) && workers.allSatisfy(\.isIdle) }

    /// The number of final results, those of copies included. Moves between tiers do not count.
    private var endedCount: Int { books.values.reduce(0) { $0 + $1.results.count + $1.countedAsAccepted } }

    private var unfinished: String {
        let logs = logs.enumerated().filter { !$1.isDone }.map { place, log in
            "\(log.topic)/\(log.partition) \(log.committedCount) of \(log.records.count)"
        }
        return "\(logs), \(workers.map { "\($0.machine.gauges) \($0.assignments)" })"
    }

    // MARK: Requests

    private func produceRequest() {
        let log = Int.random(in: 0..<3, using: &random)
        if random.chance(10) { logs[log].nextOffset += Int64.random(in: 1...40, using: &random) }
        let offset = logs[log].nextOffset
        logs[log].nextOffset += 1
        let isDeadLetter = random.chance(2)
        let count = !isDeadLetter && random.chance(15) ? Int32.random(in: 1...30, using: &random) : 0
        var timestampMs = startMs + nowMs
        if clocksJumped, random.chance(3) { timestampMs += .random(in: -6...6, using: &random) * Self.hourMs }
        let life = logs[log].life
        var record = SimulatedRecord(
            offset: offset, life: life, timestampMs: timestampMs, count: max(1, count), originals: [])
        for index in 0..<max(1, count) {
            record.originals.append(.init(log: log, life: life, offset: offset, index: index))
        }

        let routes = allApps.filter { $0.environment == .production }
        let route = routes[Int.random(in: 0..<routes.count, using: &random)]
        let app = route.bundleIDs[0]
        var notBeforeSeconds: Int64 = 0
        if schedules, random.chance(40) {
            notBeforeSeconds = (startMs + nowMs) / 1_000 + .random(in: -1...4, using: &random)
        }
        if isDeadLetter {
            books[record.originals[0]] = SimulatedBook(isDeadLetter: true)
        } else if count > 0 {
            let tokens = record.originals.map { device(for: $0, log: log, isList: true, route) }
            let list = tokens.map { "\"\($0)\"" }.joined(separator: ",")
            let named = hasOther ? #""app":"\#(route.name)","# : ""
            let time = notBeforeSeconds > 0 ? #""not_before":\#(notBeforeSeconds),"# : ""
            record.value = Array(
                #"{"device_tokens":[\#(list)],\#(named)\#(time)"headers":{"apns-topic":"\#(app)"},"payload":{"aps":{}}}"#
                    .utf8)
        } else {
            let token = device(for: record.originals[0], log: log, isList: false, route)
            var headers = ["apns-topic": app, "push-device-token": token]
            if hasOther { headers["push-app"] = route.name }
            if notBeforeSeconds > 0 { headers["push-not-before"] = "\(notBeforeSeconds)" }
            if books[record.originals[0]]?.rule == .nowOrNever {
                headers["apns-expiration"] = "0"
            } else if random.chance(10) {
                headers["apns-expiration"] = "\((startMs + nowMs + Self.shortestAgeMs) / 1_000)"
            }
            record.headers = headers.sorted { $0.key < $1.key }.map { (Array($0.key.utf8), Array($0.value.utf8)) }
            record.value = Array(#"{"aps":{"alert":"Hi"}}"#.utf8)
        }
        for place in record.originals {
            books[place]?.app = route.name
            books[place]?.notBeforeMs = notBeforeSeconds * 1_000
        }
        originals[record.originals[0]] = record.originals
        logs[log].records.append(record)
    }

    /// Returns one of a few devices, so that device queues fill. Each device belongs to one log.
    private func device(for place: SimulatedPlace, log: Int, isList: Bool, _ route: AppRoute) -> String {
        if random.chance(2) {
            books[place] = SimulatedBook()
            return "no-hex"
        }
        let rules = SimulatedRule.allCases.filter {
            switch $0 {
            case .nowOrNever: !isList
            case .poison: hasPoison
            case .endless: hasEndless
            case .slow: faults.isLong
            case .foreign, .foreignShutdown: route.otherEnvironment != nil
            default: true
            }
        }.filter { !binaryNames.contains(route.name) || $0.isOfGateway }
        var rule =
            random.chance(faults.isLong ? 96 : 60) ? .accept : rules[Int.random(in: 0..<rules.count, using: &random)]
        if faults.isLong, rule != .accept, random.chance(50) { rule = .slow }
        if step < wrongTokensUntil { rule = .bad }
        books[place] = SimulatedBook(rule: rule)
        // Other notifications must not wait behind one that is refused forever.
        if rule == .endless { return Self.token("\(rule.rawValue)\(log)\(place.life)\(place.offset).\(place.index)") }
        return Self.token("\(rule.rawValue)\(log)\(Int.random(in: 0..<(faults.isLong ? 200 : 6), using: &random))")
    }

    // MARK: Membership

    private func disturb() {
        if faults.crashes, random.chance(crashChance) {
            crash(Int.random(in: 0..<workers.count, using: &random))
        }
        if random.chance(reloadChance) { reload() }
        if random.chance(reachChance), let worker = workers.randomElement(using: &random) { changeReach(worker) }
        if random.chance(moveChance), let worker = workers.randomElement(using: &random),
            let log = worker.assignments.keys.sorted().randomElement(using: &random)
        {
            if faults.lapses, random.chance(50) {
                lapse(log, worker)
            } else if faults.losses, random.chance(30) {
                lose(log, worker, &worker.machine)
            } else if faults.losses, random.chance(20) {
                fence(log, worker)
            } else {
                revoke([log], worker)
            }
        }
        if random.chance(1), let worker = workers.randomElement(using: &random) {
            // A graceful stop. Any worker may take over, including this one.
            revoke(worker.assignments.keys.sorted(), worker)
        }
    }

    private func revoke(_ list: [Int], _ worker: SimulatedWorker) {
        let leaving = list.filter { log in
            worker.assignments[log].map { $0.drainsSince == nil && $0.fenced == nil } ?? false
        }
        let ids = leaving.compactMap { worker.assignments[$0]?.id }
        for log in leaving { worker.assignments[log]?.drainsSince = step }
        worker.machine.revoke(ids)
    }

    func lose(_ log: Int, _ worker: SimulatedWorker, _ machine: inout DeliveryMachine) {
        guard let assignment = worker.assignments[log], assignment.fenced == nil else { return }
        trace(log) { "lost by \(name(worker))" }
        worker.assignments[log] = nil
        crashCount += 1
        takeAway(log, assignment, from: worker)
        doubtFlights(of: worker, log: log)
        machine.release([assignment.id])
    }

    /// Kills a worker. Records on their way to Kafka may arrive or not, and requests on connections may be processed or
    /// not.
    private func crash(_ place: Int) {
        let worker = workers.remove(at: place)
        crashCount += 1
        for log in worker.assignments.keys { trace(log) { "\(name(worker)) crashes" } }
        for log in worker.assignments.keys.sorted() where worker.assignments[log]?.fenced == nil {
            settleCommit(of: worker, log: log)
            doubtFlights(of: worker, log: log)
            logs[log].isOwned = false
        }
        for each in worker.producing where !each.isAppended && random.chance(50) { each.append(self, false) }
        for connection in worker.connections { loseUnseen(connection, worker) }
        addWorker()
    }

    /// Ends the ownership of a partition, with or without its owner's knowledge, and decides its commit in flight.
    func takeAway(_ log: Int, _ assignment: SimulatedWorker.Assignment, from worker: SimulatedWorker) {
        settleCommit(of: worker, log: log)
        deadAssignments.insert(assignment.number)
        logs[log].isOwned = false
    }

    /// Marks the requests in flight of a dead or fenced worker as sent or possibly sent.
    func doubtFlights(of worker: SimulatedWorker, log: Int) {
        for flight in worker.flights.values where flight.place.log == log {
            books[flight.original]?.doubts += 1
        }
    }

    /// Decides whether a commit in flight arrived before its sender was gone.
    func settleCommit(of worker: SimulatedWorker, log: Int) {
        for group in worker.commits.indices where !worker.commits[group].isApplied {
            for place in worker.commits[group].entries.indices where worker.commits[group].entries[place].log == log {
                if worker.commits[group].entries[place].isTaken, worker.cutOffSinceNs == nil, random.chance(50) {
                    apply(worker.commits[group].entries[place])
                } else {
                    worker.commits[group].entries[place].outcome = .refused
                }
                worker.commits[group].entries[place].isTaken = false
            }
        }
    }

    private func assignFree() {
        guard !isKafkaDown else { return }
        for log in logs.indices where !logs[log].isOwned {
            guard isCalm || random.chance(60) else { continue }
            // A worker that has not detected the loss of a partition cannot get it back. It gets no other partition
            // before it has detected the end of its session.
            let able = workers.filter { worker in
                worker.assignments[log] == nil && worker.assignments.values.allSatisfy { $0.fenced?.isExpired != true }
            }
            let known = able.filter { $0.suspended[log] != nil }
            let choice = !known.isEmpty && (!faults.losses || random.chance(50)) ? known : able
            guard let worker = choice.randomElement(using: &random) else { continue }
            assign(log, to: worker)
        }
    }
}

extension SplitMix64 {
    mutating func oneIn(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }
}

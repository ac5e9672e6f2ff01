import Delivery
import PushRecords

/// Drives a `DeliveryMachine` with events of Kafka, APNs and the clock that the bytes select. The events are adverse
/// but keep the contract of each call.
func fuzzMachine(_ bytes: UnsafeRawBufferPointer) {
    var driver = MachineDriver(bytes)
    driver.run()
    withExtendedLifetime(driver.pieces) {}
}

private struct MachineDriver: ~Copyable {
    struct Assigned {
        var id: PartitionID
        var isRetry: Bool
        var next: Int64
    }

    var reader: FuzzReader
    var machine: DeliveryMachine
    var results: ResultWriter
    var retries: RetryWriter
    var letters = DeadLetterWriter()
    let metadataLimit: Int
    var now = DeliveryTime(ns: 1_000_000_000, wallMs: 1_800_000_000_000)
    var assigned: [Assigned] = []
    var sent: [(app: AppIndex, id: NotificationID)] = []
    var produced: [NotificationID] = []
    /// The number of entries in each group's commit in flight.
    var inFlight = [0, 0]
    let pieces = Pieces()
    var targets: [ProductionTarget] = [.results, .unregistered]

    static let routes = [
        AppRoute(name: "shop", environment: .production, bundleIDs: ["com.example.shop"]),
        AppRoute(name: "news", environment: .development, bundleIDs: ["com.example.news"], rateLimit: 2),
    ]

    init(_ bytes: UnsafeRawBufferPointer) {
        reader = FuzzReader(bytes)
        let flags = reader.byte()
        var settings = MachineSettings()
        settings.maxOpen = 64
        settings.maxOpenBytes = 1 << 16
        settings.horizonMargin = flags & 1 == 0 ? 500 : 3
        settings.metadataLimit = flags & 2 == 0 ? 4_000 : 96
        settings.ordering = flags & 4 == 0 ? .device : .none
        settings.inDoubt = flags & 8 == 0 ? .resend : .abandon
        settings.publishesOnlyFailures = flags & 16 != 0
        settings.includesBadTokens = flags & 32 != 0
        settings.copiedHeaders = ["tenant"]
        if flags & 64 != 0 { settings.tierDelaysMs = [1] }
        metadataLimit = settings.metadataLimit
        for tier in settings.tierDelaysMs.indices { targets.append(.retry(tier: tier)) }
        machine = DeliveryMachine(settings: settings, apps: Self.routes)
        let apps = Self.routes.map { RecordApp(name: $0.name, environment: $0.environment) }
        results = ResultWriter(apps: apps)
        retries = RetryWriter(apps: apps)
        for app in Self.routes.indices { machine.setCapacity(AppIndex(app), requests: 20, now: now) }
    }

    mutating func run() {
        while !reader.isAtEnd {
            switch reader.number(below: 16) {
            case 0: assign()
            case 1, 2, 3: receive()
            case 4: send()
            case 5, 6: completion()
            case 7, 8: produce(to: targets[reader.number(below: targets.count)])
            case 9: acknowledge()
            case 10: commit()
            case 11: finishCommit()
            case 12: pass()
            case 13: leave()
            case 14: capacity()
            default: reload()
            }
            look()
        }
        // All remaining requests are answered and settled.
        for _ in 0..<4 {
            send()
            while !sent.isEmpty {
                answer(Completion(id: sent[0].id, kind: .answered, status: 200, sentAtMs: now.wallMs))
            }
            for target in targets {
                machine.setWritable(target, true, now: now)
                while machine.nextProduction(for: target) != nil { produce(to: target) }
            }
            while !produced.isEmpty { acknowledge() }
            commit()
            finishCommit()
            now.ns += 10_000_000_000
            now.wallMs += 10_000
            machine.advance(now: now)
            look()
        }
        machine.release(assigned.map(\.id))
    }

    /// Reads the values that the admin pages and metrics show.
    private mutating func look() {
        for status in assigned.compactMap({ machine.status(of: $0.id) }) {
            require(
                status.openRecords >= 0 && status.openNotifications >= 0,
                "counts of open records and notifications must not be negative")
        }
        for app in machine.appStatuses {
            require(app.open >= 0 && app.handed >= 0, "an app's counts must not be negative")
        }
        let gauges = machine.gauges
        require(
            gauges.openNotifications >= 0 && gauges.openBytes >= 0,
            "counts of open records and notifications must not be negative")
        _ = machine.takeEvents()
        if let deadlineNs = machine.nextDeadlineNs { require(deadlineNs >= 0, "a deadline must not be negative") }
    }

    private mutating func assign() {
        guard assigned.count < 6 else { return }
        let flags = reader.byte()
        let isRetry = flags & 1 != 0
        var committed: Int64?
        if flags & 2 != 0 { committed = reader.boundary(around: 1_000) & .max }
        let metadata: UnsafeRawBufferPointer
        switch flags >> 2 & 3 {
        case 0: metadata = .nothing
        case 1: metadata = pieces.copy(reader.take(reader.number(below: 64)))
        default: metadata = map(base: committed ?? 0)
        }
        let logEnd: Int64? = flags & 16 == 0 ? nil : reader.boundary(around: committed ?? 0) & .max
        // The configuration limits durations to a hundred years.
        let delayMs: Int64 = flags & 32 == 0 ? 1_000 : 100 * 366 * 86_400_000
        let id = machine.assign(
            topic: isRetry ? "retry" : "requests\(flags >> 6)", partition: Int32(assigned.count),
            role: isRetry ? .retry(delayMs: delayMs) : .requests(weight: 1 + Int(flags >> 5)),
            committedOffset: committed, metadata: metadata,
            logStart: flags & 64 == 0 ? nil : reader.boundary(around: committed ?? 0) & .max, logEnd: logEnd)
        assigned.append(Assigned(id: id, isRetry: isRetry, next: committed ?? 0))
    }

    /// A commit map that an earlier owner may have written.
    private mutating func map(base: Int64) -> UnsafeRawBufferPointer {
        // There must be offsets above the base.
        guard base < .max - 100_000 else { return .nothing }
        var writer = CommitMapWriter()
        writer.start(base: base, limit: 4_000)
        var offset = base + 1
        for _ in 0..<reader.number(below: 4) {
            offset += Int64(reader.number(below: 100))
            let length = 1 + Int64(reader.number(below: 10))
            writer.settled(offset..<offset + length)
            offset += length + 1
        }
        if reader.byte() & 1 == 0 {
            let words = [UInt64(bitPattern: reader.word())]
            words.withUnsafeBufferPointer { writer.partial(offset: offset, words: $0) }
        }
        writer.finish(horizon: base + Int64(reader.byte()) * 4)
        return pieces.copy(writer.text)
    }

    private mutating func receive() {
        guard !assigned.isEmpty else { return }
        let place = reader.number(below: assigned.count)
        guard machine.room(for: assigned[place].id) > 0 else { return }
        let flags = reader.byte()
        var offset = assigned[place].next
        if flags & 3 == 3 { offset = reader.boundary(around: offset) & .max }
        // The offset after the highest one must still be valid, because it is committed.
        offset = min(offset, .max - 1)
        let timestampMs = flags & 4 == 0 ? now.wallMs : reader.boundary(around: now.wallMs)
        var key = UnsafeRawBufferPointer.nothing
        var value = UnsafeRawBufferPointer.nothing
        var headers: [RecordHeader] = []
        func add(_ name: StaticString, _ text: String) {
            headers.append(RecordHeader(name: name, value: pieces.copy(text.utf8)))
        }
        let device = String(repeating: "a", count: 63) + String(reader.number(below: 10))
        switch flags >> 3 & 7 {
        case 0:
            let record = Pieces(reader.take(reader.number(below: 256)))
            key = record[0].map { pieces.copy($0) } ?? .nothing
            value = record[1].map { pieces.copy($0) } ?? .nothing
            for index in stride(from: 2, to: record.all.count, by: 2) {
                let value = pieces.copy(record[index + 1] ?? .nothing)
                headers.append(RecordHeader(name: pieces.copy(record.all[index]), value: value))
            }
        case 1, 2:
            let more = reader.byte()
            let tokens = (0..<Int(more % 40)).map { $0 % 3 == 0 ? "\"\(device)\"" : "\"bb\(10 + $0)\"" }
            value = pieces.copy(
                Array(#"{"device_tokens":[\#(tokens.joined(separator: ","))],"payload":{"aps":{}},"app":"shop"}"#.utf8))
            if more & 64 != 0 { key = pieces.copy([UInt8](repeating: more, count: Int(more) * 40)) }
        default:
            key = pieces.copy(Array(device.utf8))
            value = pieces.copy(Array(#"{"aps":{"alert":"Hi"}}"#.utf8))
            let more = reader.byte()
            if more & 1 != 0 { add("push-app", more & 2 == 0 ? "shop" : "news") }
            if more & 4 != 0 { add("apns-expiration", seconds()) }
            if more & 8 != 0 {
                headers.append(
                    RecordHeader(
                        name: more & 16 == 0 ? "apns-topic" : "apns-collapse-id",
                        value: pieces.copy([UInt8](repeating: more, count: Int(reader.byte()) * 40))))
            }
            if more & 64 != 0 { add("push-not-before", seconds()) }
            if more & 32 != 0 { add("tenant", String(repeating: "t", count: reader.number(below: 100))) }
        }
        if assigned[place].isRetry {
            add("push-device-token", device)
            add("push-retry-request", "requests/3/\(reader.boundary(around: 7) & .max)/\(reader.byte())")
            add("push-retry-attempt", String(reader.boundary(around: 2) & .max))
            add("push-retry-due-ms", String(reader.boundary(around: now.wallMs) & .max))
            add("push-retry-first-ms", String(reader.boundary(around: now.wallMs) & .max))
            add("push-retry-sends", String(reader.boundary(around: 1) & .max))
            add("push-retry-in-doubt", String(reader.boundary(around: 1) & .max))
        }
        let receipt = headers.withUnsafeBufferPointer {
            machine.receive(
                assigned[place].id, offset: offset, timestampMs: timestampMs, key: key, value: value, headers: $0,
                now: now)
        }
        if case .deadLetter(let id, let reason, let detail) = receipt {
            headers.withUnsafeBufferPointer {
                let request = RequestPlace(
                    topic: ("requests" as StaticString).lentBytes, partition: 0, offset: offset, index: 0)
                touch(
                    letters.headers(
                        original: $0, place: request, timestampMs: timestampMs, reason: reason, detail: detail))
            }
            produced.append(id)
        }
        switch receipt {
        case .notDue(let untilMs):
            require(untilMs > now.wallMs, "a record that is not due must be due later")
        case .ignored:
            assigned[place].next = offset + 1
            guard reader.byte() & 3 == 0 else { return }
            // The topic was recreated, so the record is delivered again.
            assigned[place].id = machine.beginAnew(
                assigned[place].id, logEnd: reader.boundary(around: offset) & .max, now: now)
            assigned[place].next = offset
        case .noLetterRoom:
            require(false, "every dead letter must be accepted")
        case .taken, .deadLetter:
            assigned[place].next = offset + 1
        }
    }

    /// A time in a header.
    private mutating func seconds() -> String {
        String(UInt32(truncatingIfNeeded: reader.boundary(around: now.wallMs / 1_000)))
    }

    private mutating func send() {
        var batch: [(AppIndex, NotificationID)] = []
        machine.sends(now: now) { app, requests in
            for request in requests {
                touch(request.token)
                touch(request.payload)
                touch(request.headers.topic)
                touch(request.headers.collapseID)
                batch.append((app, request.id))
            }
        }
        sent += batch
        machine.recalls { _, _ in }
    }

    private mutating func completion() {
        guard !sent.isEmpty else { return }
        let flags = reader.byte()
        sent.swapAt(0, reader.number(below: sent.count))
        var completion = Completion(id: sent[0].id, kind: .answered, status: 200, sentAtMs: now.wallMs)
        switch flags & 7 {
        case 0, 1: break
        case 2:
            completion.kind = .notProcessed
            completion.unprocessed = flags & 8 == 0 ? .neverSent : .refusedByPeer
            completion.sentAtMs = 0
        case 3:
            completion.kind = .inDoubt
            completion.status = 0
            completion.connectionDied = flags & 8 != 0
            completion.connectionWasSilent = flags & 16 != 0
        default:
            completion.status = [400, 403, 404, 410, 413, 429, 500, 503, 0, 65_535, 300][reader.number(below: 11)]
            completion.reason = ReasonCode(rawValue: reader.byte()) ?? .none
            if flags & 8 != 0 {
                completion.reason = .other
                completion.reasonText = 0
            }
            if flags & 16 != 0 { completion.uniqueIDText = 0 }
            completion.carriedOlderToken = flags & 32 != 0
            // The parser reads at most 18 digits.
            completion.unregisteredAtMs =
                flags & 64 == 0 ? 0 : max(0, reader.boundary(around: now.wallMs) % 1_000_000_000_000_000_000)
        }
        answer(completion)
    }

    /// Completes the first request that was sent.
    private mutating func answer(_ completion: Completion) {
        let app = sent[0].app
        sent.swapAt(0, sent.count - 1)
        sent.removeLast()
        let text = String(repeating: "\u{1}\u{FFFD}\"", count: reader.number(below: 66))
        machine.handle(CompletionBatch(app: app, completions: [completion], texts: [text]), now: now)
    }

    private mutating func produce(to target: ProductionTarget) {
        guard let id = machine.nextProduction(for: target) else { return }
        switch target {
        case .results, .unregistered:
            machine.withResult(id, now: now) { content, ending in
                let record = results.write(content, ending)
                touch(record.key)
                let size = record.key.count + record.value.count + touch(record.headers)
                require(size <= RecordLimits.result, "a result must not exceed its size limit: \(size)")
                do throws(RecordError) {
                    _ = try DeliveryResult(json: Array(record.value))
                } catch {
                    fatalError("a result cannot be decoded: \(error): \(String(decoding: record.value, as: UTF8.self))")
                }
            }
        case .retry:
            machine.withRetry(id) { content, order in
                let record = retries.write(content, order)
                var parser = RequestParser(copyHeaders: ["tenant"])
                let request = parser.parse(key: record.key, value: record.value, headers: record.headers, role: .retry)
                require(request.deadLetter == nil, "the next owner must be able to read a retry record")
                // Counts in a record stop at a limit.
                let most = RecordLimits.count
                require(request.retry?.sends == min(order.sends, most), "the number of sends must be read back")
                require(request.retry?.attempt == min(order.attempt, most), "the number of attempts must be read back")
            }
        case .deadLetters: fatalError("dead letters are not among the productions")
        }
        machine.produced(id, to: target)
        produced.append(id)
    }

    private mutating func acknowledge() {
        guard !produced.isEmpty else { return }
        machine.acknowledged(produced.remove(at: reader.number(below: produced.count)), now: now)
    }

    private mutating func commit() {
        for group in CommitGroup.allCases where inFlight[group.rawValue] == 0 {
            let entries = machine.takeCommit(of: group, now: now)
            for entry in entries {
                require(entry.offset >= 0, "a committed offset must not be negative")
                require(entry.metadata.count <= metadataLimit, "commit metadata must not exceed its limit")
                require(
                    entry.metadata.withUnsafeBytes { CommitMap(metadata: $0, base: entry.offset) } != nil,
                    "commit metadata must be readable")
            }
            inFlight[group.rawValue] = entries.count
        }
    }

    private mutating func finishCommit() {
        for group in CommitGroup.allCases where inFlight[group.rawValue] > 0 {
            let flags = reader.byte()
            var outcomes: [CommitOutcome]?
            if flags & 15 != 15 {
                let failures: [CommitOutcome] = [.unattributed, .impossible, .metadataTooLarge, .refused]
                outcomes = (0..<inFlight[group.rawValue]).map { _ in
                    flags & 15 < 11 || reader.byte() & 1 == 0 ? .acknowledged : failures[Int(flags & 15) - 11]
                }
            }
            inFlight[group.rawValue] = 0
            machine.commitFinished(of: group, outcomes, now: now)
        }
    }

    /// Advances the monotonic clock. The wall clock may go back.
    private mutating func pass() {
        let step = reader.byte()
        let ms = Int64(1) << Int64(step % 24)
        now.ns += ms * 1_000_000
        now.wallMs += step & 128 == 0 ? ms : -ms
        machine.advance(now: now)
    }

    private mutating func leave() {
        guard !assigned.isEmpty else { return }
        let place = reader.number(below: assigned.count)
        let id = assigned[place].id
        switch reader.number(below: 5) {
        case 0: return machine.revoke([id])
        case 1: return machine.stopWaiting([id])
        case 2:
            guard machine.isDrained(id) else { return }
            machine.release([id])
        case 3: machine.release([id])
        // The session was lost, and the partition may return unchanged.
        default: machine.suspend([id])
        }
        assigned.remove(at: place)
    }

    private mutating func capacity() {
        let app = AppIndex(reader.number(below: Self.routes.count))
        let flags = reader.byte()
        if flags & 7 == 7 {
            machine.setWritable(targets[Int(flags >> 4) % targets.count], flags & 8 != 0, now: now)
        } else if flags & 7 == 5 {
            machine.credentialRefused(app, .badCertificate, now: now)
        } else if flags & 1 == 0 {
            machine.setCapacity(app, requests: Int(flags >> 1), now: now)
        } else {
            machine.setReachable(app, flags & 2 != 0, now: now)
        }
    }

    private mutating func reload() {
        var routes = Self.routes
        let flags = reader.byte()
        routes[0].isPaused = flags & 1 != 0
        routes[1].rateLimit = Int(flags >> 4)
        routes[0].guardPolicy = flags & 2 == 0 ? .warn : .hold
        if flags & 4 != 0 { machine.credentialReplaced(AppIndex(1), now: now) }
        _ = machine.replaceApps(routes, now: now)
    }
}

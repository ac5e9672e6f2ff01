import DeliveryInvariants
import PushRecords
import Testing

@testable import Delivery

/// A machine whose worker is played by the test. It creates records from texts, and converts the machine's output to
/// plain values.
///
/// The bytes passed to the machine are overwritten after each call, so that a test fails if the machine still uses
/// them.
final class Rig {
    /// A copied production.
    struct Written: Equatable, CustomStringConvertible {
        var target: ProductionTarget
        var token: String
        var outcome: Outcome?
        var reason = ""
        var attempts = 0
        var inDoubt = 0
        /// The request as `topic/partition/offset/index`.
        var request = ""
        /// The number of attempts in a retry record.
        var attempt = 0
        var dueMs: Int64 = 0
        var notBefore: UInt32 = 0
        /// The index of the app that the production names.
        var app = 0
        var detail = ""
        /// The part of a request to which the detail refers.
        var subject = ""
        /// The app that was tried before, in a retry record.
        var triedApp = ""
        var id = NotificationID(slot: NotificationSlot(0), generation: 0)

        /// The tier of a retry record.
        var tier: Int? { if case .retry(let tier) = target { tier } else { nil } }

        var description: String {
            var what = outcome.map { "\($0)" } ?? ""
            if let tier { what = "tier \(tier) attempt \(attempt)" }
            return "\(token) \(what) \(reason) sends \(attempts) doubt \(inDoubt)"
        }
    }

    var machine: DeliveryMachine
    var now = DeliveryTime(ns: 1_000_000_000, wallMs: 1_800_000_000_000)
    /// The requests that were handed out and not answered.
    var sent: [OutgoingRequest] = []
    private var steps = 0

    static let app = AppRoute(
        name: "shop", environment: .production, bundleIDs: ["com.example.shop"], guardPolicy: .off)
    static let news = AppRoute(
        name: "news", environment: .production, bundleIDs: ["com.example.news"], guardPolicy: .off)
    static let toShop = ["apns-topic": "com.example.shop"]
    static let toNews = ["apns-topic": "com.example.news"]

    init(
        apps: [AppRoute] = [Rig.app], capacity: Int = 1_000, _ change: (inout MachineSettings) -> Void = { _ in }
    ) {
        var settings = MachineSettings()
        settings.horizonMargin = 500
        change(&settings)
        machine = DeliveryMachine(settings: settings, apps: apps)
        machine.compareClock(storedMs: nil, latencyMs: 0, now: now)
        for app in apps.indices { machine.setCapacity(AppIndex(app), requests: capacity, now: now) }
    }

    /// Returns a rig and its only partition, whose first commit is acknowledged.
    static func ready(
        apps: [AppRoute] = [Rig.app], capacity: Int = 1_000, _ change: (inout MachineSettings) -> Void = { _ in }
    ) -> (Rig, PartitionID) {
        let rig = Rig(apps: apps, capacity: capacity, change)
        return (rig, rig.assignReady())
    }

    /// Returns a rig and its only partition with the commit of an owner that died. Its own first commit is
    /// acknowledged.
    static func inheriting(
        _ map: CommitMap, committed: Int64 = 0, logEnd: Int64? = nil,
        _ change: (inout MachineSettings) -> Void = { _ in }
    ) -> (Rig, PartitionID) {
        let rig = Rig(change)
        let partition = rig.assign(committed: committed, map: map, logEnd: logEnd)
        rig.commit()
        return (rig, partition)
    }

    /// Returns a rig and its only partition, which belongs to a retry topic with this delay.
    static func readyTier(_ delayMs: Int64 = 30_000) -> (Rig, PartitionID) {
        let rig = Rig()
        return (rig, rig.assignTier(delayMs))
    }

    static func token(_ name: String) -> String {
        String(repeating: "0", count: 64 - name.utf8.count * 2)
            + name.utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    static func name(of token: String) -> String {
        let bytes = (try? DeviceToken(hex: token))?.bytes ?? []
        return String(decoding: bytes.drop { $0 == 0 }, as: UTF8.self)
    }

    /// Advances the time.
    @discardableResult
    func wait(ms: Int64) -> Rig {
        now.ns += ms * 1_000_000
        now.wallMs += ms
        machine.advance(now: now)
        check(machine)
        return self
    }

    /// Checks that all counters of the machine agree with its contents. With very many notifications, checks only some
    /// steps.
    private func check(_ machine: borrowing DeliveryMachine) {
        steps += 1
        guard steps < 100 || steps % 200 == 0 else { return }
        for rule in machine.checkInvariants() { Issue.record("an invariant does not hold: \(rule)") }
    }

    // MARK: Records

    func assign(
        _ partition: Int32 = 0, topic: String = "requests", role: PartitionRole = .requests(weight: 1),
        committed: Int64? = 0, map: CommitMap = CommitMap(), text: [UInt8]? = nil, logStart: Int64? = nil,
        logEnd: Int64? = nil
    ) -> PartitionID {
        let metadata = text ?? CommitMapTests.text(base: committed ?? 0, map)
        return metadata.withUnsafeBytes {
            machine.assign(
                topic: topic, partition: partition, role: role, committedOffset: committed, metadata: $0,
                logStart: logStart, logEnd: logEnd ?? (committed == nil ? 0 : nil))
        }
    }

    /// Assigns a partition, and acknowledges the commit of its first send horizon.
    func assignReady(_ partition: Int32 = 0, topic: String = "requests", role: PartitionRole = .requests(weight: 1))
        -> PartitionID
    {
        let id = assign(partition, topic: topic, role: role)
        _ = commit()
        return id
    }

    /// Assigns a partition of a retry topic with this delay.
    func assignTier(_ delayMs: Int64 = 30_000) -> PartitionID {
        assignReady(topic: "retry.\(delayMs)", role: .retry(delayMs: delayMs))
    }

    /// Returns the headers of a retry record. By default it is due now and was first written now.
    func retryHeaders(
        attempt: Int = 1, dueMs: Int64? = nil, firstMs: Int64? = nil, sends: Int = 2, inDoubt: Int = 1
    ) -> [String: String] {
        [
            "push-device-token": Self.token("a"), "push-app": "shop", "push-environment": "production",
            "apns-topic": "com.example.shop", "apns-push-type": "alert",
            "apns-id": "00000000-0000-8000-8000-000000000001", "push-retry-request": "requests/4/1234/7",
            "push-retry-attempt": "\(attempt)", "push-retry-due-ms": "\(dueMs ?? now.wallMs)",
            "push-retry-first-ms": "\(firstMs ?? now.wallMs)", "push-retry-reason": "Shutdown",
            "push-retry-sends": "\(sends)", "push-retry-in-doubt": "\(inDoubt)",
        ]
    }

    /// Receives a record for each device, from offset 0 on.
    func receive(_ partition: PartitionID, _ devices: [String], headers: [String: String] = [:]) {
        for (offset, device) in devices.enumerated() { receive(partition, Int64(offset), device, headers: headers) }
    }

    /// Receives a record for each device, from this offset on. Returns the devices whose requests are handed out.
    @discardableResult
    func offer(
        _ partition: PartitionID, _ offset: Int64, _ devices: String..., headers: [String: String] = [:]
    ) -> [String] {
        for (place, device) in devices.enumerated() {
            receive(partition, offset + Int64(place), device, headers: headers)
        }
        return send()
    }

    /// Receives a record for each device from this offset on, answers 200, and acknowledges all productions.
    @discardableResult
    func deliver(_ partition: PartitionID, _ offset: Int64, _ devices: String...) -> [String] {
        for (place, device) in devices.enumerated() { receive(partition, offset + Int64(place), device) }
        return answerAll().map(\.description)
    }

    /// Receives records with one device each, up to this offset or until the machine is full. Returns the next offset.
    @discardableResult
    func fill(
        _ partition: PartitionID, from first: Int64 = 0, upTo end: Int64 = 1_000, headers: [String: String] = [:],
        payload: String = #"{"aps":{"alert":"Hi"}}"#
    ) -> Int64 {
        var offset = first
        while machine.room(for: partition) > 0, offset < end {
            receive(partition, offset, "d\(offset)", headers: headers, payload: payload)
            offset += 1
        }
        return offset
    }

    @discardableResult
    func receive(
        _ partition: PartitionID, _ offset: Int64, _ device: String, headers: [String: String] = [:],
        payload: String = #"{"aps":{"alert":"Hi"}}"#, timestampMs: Int64? = nil
    ) -> Receipt {
        receive(
            partition, offset, key: Self.token(device), value: payload, headers: headers.sorted { $0.key < $1.key },
            timestampMs: timestampMs)
    }

    @discardableResult
    func receive(_ partition: PartitionID, _ offset: Int64, envelope devices: [String], more: String = "") -> Receipt {
        let list = devices.map { "\"\(Self.token($0))\"" }.joined(separator: ", ")
        return receive(
            partition, offset, key: nil,
            value: #"{"device_tokens": [\#(list)], "payload": {"aps": {"alert": "Hi"}}\#(more)}"#)
    }

    @discardableResult
    func receive(
        _ partition: PartitionID, _ offset: Int64, key: String?, value: String?, headers: [(String, String)] = [],
        timestampMs: Int64? = nil
    ) -> Receipt {
        var owned: [UnsafeMutableRawBufferPointer] = []
        func lend(_ text: String?) -> UnsafeRawBufferPointer {
            guard let text else { return UnsafeRawBufferPointer(start: nil, count: 0) }
            let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 1)
            bytes.copyBytes(from: text.utf8)
            owned.append(bytes)
            return UnsafeRawBufferPointer(bytes)
        }
        let key = lend(key)
        let value = lend(value)
        let headers = headers.map { RecordHeader(name: lend($0.0), value: lend($0.1)) }
        let receipt = headers.withUnsafeBufferPointer {
            machine.receive(
                partition, offset: offset, timestampMs: timestampMs ?? now.wallMs, key: key, value: value, headers: $0,
                now: now)
        }
        for bytes in owned {
            for index in bytes.indices { bytes[index] = 0xAA }
            bytes.deallocate()
        }
        check(machine)
        return receipt
    }

    // MARK: Transport

    static func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

    static func device(_ request: OutgoingRequest) -> String { name(of: text(request.token)) }

    /// Returns the devices of the requests that are handed out now.
    @discardableResult
    func send() -> [String] {
        var batch: [OutgoingRequest] = []
        machine.sends(now: now) { batch += $1 }
        check(machine)
        sent += batch
        return batch.map(Self.device)
    }

    /// Removes the request in flight for this device. If there is none, records an issue and returns `nil`.
    private func takeSent(_ device: String, _ location: SourceLocation) -> NotificationID? {
        guard let place = sent.firstIndex(where: { Self.device($0) == device }) else {
            Issue.record("\(device) is not in flight: \(sent.map(Self.device))", sourceLocation: location)
            return nil
        }
        return sent.remove(at: place).id
    }

    @discardableResult
    func completion(
        _ device: String, _ make: (NotificationID) -> Completion, texts: [String] = [],
        location: SourceLocation = #_sourceLocation
    ) -> Rig {
        guard let completion = takeSent(device, location).map(make) else { return self }
        machine.handle(CompletionBatch(app: AppIndex(0), completions: [completion], texts: texts), now: now)
        check(machine)
        return self
    }

    @discardableResult
    func answer(
        _ device: String, _ status: UInt16 = 200, _ reason: ReasonCode = .none, atMs: Int64 = 0,
        carriedOlderToken: Bool = false, location: SourceLocation = #_sourceLocation
    ) -> Rig {
        completion(
            device,
            {
                Completion(
                    id: $0, kind: .answered, status: status, reason: reason, unregisteredAtMs: atMs,
                    sentAtMs: now.wallMs, carriedOlderToken: carriedOlderToken)
            }, location: location)
    }

    /// Answers all requests that are handed out now with 200.
    func sendAndAnswer() { for device in send() { answer(device) } }

    /// Answers all requests that are handed out now with 200, and takes and acknowledges all productions.
    @discardableResult
    func answerAll() -> [Written] {
        sendAndAnswer()
        return settle()
    }

    @discardableResult
    func doubt(_ device: String, died: Bool = true, location: SourceLocation = #_sourceLocation) -> Rig {
        completion(
            device, { Completion(id: $0, kind: .inDoubt, sentAtMs: now.wallMs, connectionDied: died) },
            location: location)
    }

    @discardableResult
    func giveBack(_ device: String, location: SourceLocation = #_sourceLocation) -> Rig {
        completion(device, { Completion(id: $0, kind: .notProcessed) }, location: location)
    }

    // MARK: Productions

    /// Takes all productions: dead tokens, then results, then retry records by tier, each in order.
    @discardableResult
    func produce() -> [Written] {
        var all: [Written] = []
        let tiers = machine.settlement.settings.tierDelaysMs.indices.map { ProductionTarget.retry(tier: $0) }
        for target in [.unregistered, .results] + tiers {
            while let id = machine.nextProduction(for: target) {
                all.append(read(id, target))
                machine.produced(id, to: target)
            }
        }
        check(machine)
        return all
    }

    private func read(_ id: NotificationID, _ target: ProductionTarget) -> Written {
        func place(_ content: borrowing NotificationContent) -> String {
            let request = content.request
            return "\(Self.text(request.topic))/\(request.partition)/\(request.offset)/\(request.index)"
        }
        func word(_ code: ReasonCode, _ text: UnsafeRawBufferPointer) -> String {
            code.text?.description ?? Self.text(text)
        }
        switch target {
        case .results, .unregistered, .deadLetters:
            return machine.withResult(id, now: now) { content, ending in
                Written(
                    target: target, token: Self.name(of: Self.text(content.token)), outcome: ending.outcome,
                    reason: word(ending.reason, ending.reasonText), attempts: Int(ending.attempts),
                    inDoubt: Int(ending.inDoubt), request: place(content),
                    app: content.app, detail: ending.detail.text.description,
                    subject: Self.text(ending.detail.subject), id: id)
            }
        case .retry:
            return machine.withRetry(id) { content, order in
                Written(
                    target: target, token: Self.name(of: Self.text(content.token)), outcome: nil,
                    reason: Self.text(order.reason), attempts: Int(order.sends), inDoubt: Int(order.inDoubt),
                    request: place(content), attempt: Int(order.attempt), dueMs: order.dueMs,
                    notBefore: order.notBefore, app: content.app, triedApp: Self.text(order.triedApp),
                    id: id)
            }
        }
    }

    /// Takes and acknowledges all productions.
    @discardableResult
    func settle() -> [Written] {
        let written = produce()
        for each in written { machine.acknowledged(each.id, now: now) }
        check(machine)
        return written
    }

    /// Takes and acknowledges all productions, and returns their descriptions.
    func settled() -> [String] { settle().map(\.description) }

    /// Answers the requests for these devices with 200, and acknowledges the productions.
    @discardableResult
    func finish(_ devices: String..., location: SourceLocation = #_sourceLocation) -> [Written] {
        for device in devices { answer(device, location: location) }
        return settle()
    }

    /// Answers as `finish` does, and returns descriptions of the productions.
    func finished(_ devices: String..., location: SourceLocation = #_sourceLocation) -> [String] {
        for device in devices { answer(device, location: location) }
        return settled()
    }

    /// Returns the productions with the index of their app, the app that was tried before, and the detail.
    func settledWhole() -> [String] {
        settle().map { written in
            [written.description, "app \(written.app)", written.triedApp, written.detail].filter { !$0.isEmpty }
                .joined(separator: ", ")
        }
    }

    // MARK: Commits

    struct Committed: Equatable {
        var partition: PartitionID
        var offset: Int64
        var map: CommitMap
    }

    /// Returns the commits of both groups without answering them.
    func takeCommit() -> [Committed] { CommitGroup.allCases.flatMap { takeCommit(of: $0) } }

    func takeCommit(of group: CommitGroup) -> [Committed] {
        machine.takeCommit(of: group, now: now).map { entry in
            let map = entry.metadata.withUnsafeBytes { CommitMap(metadata: $0, base: entry.offset) }
            return Committed(
                partition: entry.partition, offset: entry.offset, map: map ?? CommitMap(horizon: -1))
        }
    }

    /// Answers a commit of request partitions.
    func finishCommit(_ outcomes: [CommitOutcome], of group: CommitGroup = .requests) {
        machine.commitFinished(of: group, outcomes, now: now)
        check(machine)
    }

    /// Commits all changes and acknowledges them.
    @discardableResult
    func commit(afterMs waitMs: Int64 = 0) -> [Committed] {
        if waitMs > 0 { wait(ms: waitMs) }
        var all: [Committed] = []
        for group in CommitGroup.allCases {
            let entries = takeCommit(of: group)
            if !entries.isEmpty { finishCommit(entries.map { _ in .acknowledged }, of: group) }
            all += entries
        }
        return all
    }

    /// Whether the machine commits this offset and is then empty.
    func isDone(at offset: Int64) -> Bool { commit(afterMs: 50).map(\.offset) == [offset] && isEmpty }

    /// Whether the machine is empty.
    var isEmpty: Bool {
        let gauges = machine.gauges
        return gauges.openNotifications == 0 && gauges.openBytes == 0 && gauges.inFlight.allSatisfy { $0 == 0 }
            && machine.dispatch.apps.allSatisfy { $0.ready.count == 0 } && machine.dispatch.devices.heads.count == 0
            && machine.ledger.slots.allSatisfy { machine.ledger[$0].firstAdmitting == .none }
    }
}

extension LatencyCounts {
    /// The number of all counted durations.
    var count: Int { (0..<Self.bucketCount).reduce(0) { $0 + self[$1] } }
}

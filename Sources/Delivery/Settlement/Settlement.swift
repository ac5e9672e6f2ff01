import PushRecords

/// Determines the consequence of each answer and the records to produce for a concluded notification. It also queues
/// these records for the producer.
struct Settlement: ~Copyable {
    private let inPlace = InPlace()
    var productions: ProductionQueues
    private(set) var tiers: RetryTiers
    private var unwritable: Set<ProductionTarget> = []
    private let verdicts: VerdictTable
    /// The text of a reason without a `ReasonCode` and the `apns-unique-id` (development only) of a notification's last
    /// answer, if the answer has at least one.
    private var texts: [NotificationSlot: (reason: String?, uniqueID: String?)] = [:]
    let settings: MachineSettings

    init(_ settings: MachineSettings) {
        productions = ProductionQueues(tiers: settings.tierDelaysMs.count)
        tiers = RetryTiers(settings.tierDelaysMs)
        verdicts = VerdictTable(overrides: settings.verdicts)
        self.settings = settings
    }

    // MARK: Answers

    /// Stores the answer of APNs, and returns the row of the verdict table for it.
    mutating func note(
        _ completion: Completion, in batch: CompletionBatch, for slot: NotificationSlot,
        in store: inout NotificationStore
    ) -> VerdictRow {
        let text = completion.reasonText >= 0 ? batch.texts[Int(completion.reasonText)] : nil
        let row = verdicts.row(reason: completion.reason, text: text, status: completion.status)
        store[slot].tries.sends.countUp()
        store[slot].tries.returns = 0
        store[slot].tries.refusals = 0
        store[slot].answer = Notification.Answer(
            apnsID: completion.apnsID, unregisteredAtMs: RecordTime.checked(completion.unregisteredAtMs),
            status: completion.status, reason: completion.reason, remark: completion.isPresumed ? .presumed : .none)
        if row.verdict != .accept, completion.reason == .none { store[slot].answer.reason = .other }
        forget(slot)
        if text != nil || completion.uniqueIDText >= 0 {
            let uniqueID = completion.uniqueIDText >= 0 ? batch.texts[Int(completion.uniqueIDText)] : nil
            texts[slot] = (text, uniqueID)
            store.takeBytes((text?.utf8.count ?? 0) + (uniqueID?.utf8.count ?? 0), for: slot)
        }
        return row
    }

    /// Removes the texts of a notification's last answer.
    @inline(__always)
    mutating func forget(_ slot: NotificationSlot) {
        if !texts.isEmpty { texts[slot] = nil }
    }

    /// Returns the time since which the token is dead, or `nil` if no dead-token record is due. A 410 without a
    /// timestamp causes no such record. If a verdict or `include_bad_tokens` makes the token dead, this is the time of
    /// the send.
    func deadSinceMs(_ slot: NotificationSlot, _ outcome: Outcome, in store: borrowing NotificationStore) -> Int64? {
        switch outcome {
        case .unregistered where store[slot].answer.status == 410:
            store[slot].answer.unregisteredAtMs != 0 ? store[slot].answer.unregisteredAtMs : nil
        case .rejected:
            store[slot].answer.reason.subject == .badToken && settings.includesBadTokens ? store[slot].sentAtMs : nil
        case .unregistered: store[slot].sentAtMs
        case .accepted, .invalid, .expired, .abandoned: nil
        }
    }

    // MARK: Production

    /// Queues a record of this notification for production to a topic.
    mutating func produce(_ slot: NotificationSlot, to target: ProductionTarget, in store: inout NotificationStore) {
        store[slot].unproduced += 1
        store[slot].unacknowledged += 1
        productions[target].append(store.id(of: slot))
    }

    /// Returns the next notification with a record for a topic. Removes queue entries of notifications that were freed.
    mutating func next(for target: ProductionTarget, in store: borrowing NotificationStore) -> NotificationID? {
        guard target != .deadLetters else { return nil }
        while !productions[target].isEmpty {
            let id = productions[target][productions[target].head]
            if store.isCurrent(id) { return id }
            productions[target].removeFirst()
        }
        return nil
    }

    // MARK: Writable topics

    func isWritable(_ target: ProductionTarget) -> Bool { !unwritable.contains(target) }

    /// Stores whether a topic is writable. Returns whether the stored value has changed.
    mutating func setWritable(_ target: ProductionTarget, _ isWritable: Bool) -> Bool {
        guard self.isWritable(target) != isWritable else { return false }
        if isWritable { unwritable.remove(target) } else { unwritable.insert(target) }
        tiers.setWritable((0..<tiers.count).map { !unwritable.contains(.retry(tier: $0)) })
        return true
    }

    /// Moves notifications that wait for unwritable tiers to other tiers. At least one tier must be writable.
    mutating func emptyUnwritableTiers(in store: inout NotificationStore, nowMs: Int64) {
        for tier in 0..<tiers.count where !isWritable(.retry(tier: tier)) {
            while let id = next(for: .retry(tier: tier), in: store) {
                productions[.retry(tier: tier)].removeFirst()
                let slot = id.slot
                guard case .concluded(.retry(_, let isAttempt)) = store[slot].state else {
                    preconditionFailure("A notification in the queue of a tier must have a retry record")
                }
                let notBeforeMs = store.notBeforeMs(slot)
                let isScheduled = isScheduled(slot, in: store)
                let other = isScheduled ? tiers.tier(dueInMs: notBeforeMs - nowMs) : tiers.writable(tier)
                let dueMs = RecordTime.adding(tiers.delayMs(of: other), to: nowMs)
                store[slot].state = .concluded(
                    .retry(dueMs: isScheduled ? min(dueMs, notBeforeMs) : dueMs, isAttempt: isAttempt))
                productions[.retry(tier: other)].append(id)
            }
        }
    }

    /// Returns the due time of a notification that is moved to a tier now: the end of the tier's delay, or the
    /// notification's scheduled time if that is earlier.
    func dueMs(_ slot: NotificationSlot, in tier: Int, _ store: borrowing NotificationStore, nowMs: Int64) -> Int64 {
        let dueMs = RecordTime.adding(tiers.delayMs(of: tier), to: nowMs)
        let notBeforeMs = store.notBeforeMs(slot)
        return notBeforeMs > nowMs ? min(dueMs, notBeforeMs) : dueMs
    }

    /// Returns whether a notification moves to a tier because of its scheduled time. Its due time is then at most the
    /// scheduled time.
    private func isScheduled(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        guard case .concluded(.retry(let dueMs, _)) = store[slot].state else { return false }
        let notBeforeMs = store.notBeforeMs(slot)
        return notBeforeMs > 0 && dueMs <= notBeforeMs
    }

    /// Removes and returns the notifications whose dead-token record and result are both not produced yet, so that they
    /// can be deferred: their only output is then a retry record. Their outcome was already counted, and will be
    /// counted again.
    mutating func takeDeadTokens(in store: inout NotificationStore) -> [NotificationSlot] {
        var taken: [NotificationSlot] = []
        for _ in 0..<productions[.unregistered].count {
            let id = productions[.unregistered][productions[.unregistered].head]
            productions[.unregistered].removeFirst()
            let slot = id.slot
            guard store.isCurrent(id) else { continue }
            guard store[slot].unproduced == 2 else {
                productions[.unregistered].append(id)
                continue
            }
            // The notification's other entries in the production queues have the old generation, so they become
            // invalid. No caller has the new id yet.
            store[slot].generation &+= 1
            store[slot].unproduced = 0
            store[slot].unacknowledged = 0
            taken.append(slot)
        }
        return taken
    }

    // MARK: Content of records

    /// Lends the content of a concluded notification's result or dead-token record to `body`.
    ///
    /// - Parameter tried: The environment in which APNs first rejected the token as bad, if the notification was then
    ///   forwarded to the other environment.
    func withResult<R>(
        _ slot: NotificationSlot, in store: borrowing NotificationStore, nowMs: Int64, tried: PushEnvironment?,
        _ body: (borrowing NotificationContent, borrowing Ending) -> R
    ) -> R {
        guard case .concluded(.result(let outcome)) = store[slot].state else {
            preconditionFailure("A notification must have an outcome before its result is written")
        }
        let answer = store[slot].answer
        var ending = Ending(
            outcome: outcome, status: answer.status, reason: answer.reason,
            detail: detail(slot, outcome, in: store, tried: tried), unregisteredAtMs: answer.unregisteredAtMs,
            attempts: store[slot].tries.sends, inDoubt: store[slot].tries.inDoubt, sentAtMs: store[slot].sentAtMs,
            settledAtMs: nowMs)
        let content = content(slot, in: store)
        var mistake = outcome == .expired ? Self.mistake(in: content.requestedAtMs) : ""
        guard answer.reason == .other || !texts.isEmpty || !mistake.isEmpty else { return body(content, ending) }
        var uniqueID = texts[slot]?.uniqueID ?? ""
        return uniqueID.withUTF8 { uniqueID in
            ending.uniqueID = UnsafeRawBufferPointer(uniqueID)
            return mistake.withUTF8 { mistake in
                if !mistake.isEmpty { ending.detail.subject = UnsafeRawBufferPointer(mistake) }
                return withReasonText(slot, in: store) {
                    ending.reasonText = $0
                    return body(content, ending)
                }
            }
        }
    }

    /// Returns a note about a timestamp in seconds instead of milliseconds, which is a time in early 1970, or an empty
    /// text.
    private static func mistake(in timestampMs: Int64) -> String {
        guard 0...Int64(UInt32.max) ~= timestampMs else { return "" }
        let day = Int(timestampMs / 86_400_000)
        let (month, date) = day < 31 ? (1, day + 1) : (2, day - 30)
        let text = "1970-0\(month)-\(date < 10 ? "0" : "")\(date)"
        return "the timestamp is \(text): seconds instead of milliseconds?"
    }

    /// Lends the text of a reason without a `ReasonCode`: Apple's reason, or `HTTP <status>`.
    private func withReasonText<R>(
        _ slot: NotificationSlot, in store: borrowing NotificationStore, _ body: (UnsafeRawBufferPointer) -> R
    ) -> R {
        guard store[slot].answer.reason == .other else { return body(UnsafeRawBufferPointer.nothing) }
        var text = texts[slot]?.reason ?? "HTTP \(store[slot].answer.status)"
        return text.withUTF8 { body(UnsafeRawBufferPointer($0)) }
    }

    /// Lends the content of a notification's retry record to `body`.
    ///
    /// - Parameter triedApp: The name of the app for which APNs first rejected the token as bad, or empty.
    func withRetry<R>(
        _ slot: NotificationSlot, in store: borrowing NotificationStore, triedApp: UnsafeRawBufferPointer,
        _ body: (borrowing NotificationContent, borrowing RetryOrder) -> R
    ) -> R {
        guard case .concluded(.retry(let dueMs, let isAttempt)) = store[slot].state else {
            preconditionFailure("A notification must be concluded(.retry) before its retry record is written")
        }
        let content = content(slot, in: store)
        var order = RetryOrder(
            attempt: store[bodyOf: store[slot].record].attempt + (isAttempt ? 1 : 0), dueMs: dueMs,
            notBefore: store[bodyOf: store[slot].record].notBefore,
            reason: (isScheduled(slot, in: store) ? RetryOrder.scheduled : RetryOrder.held).lentBytes,
            sends: store[slot].tries.sends, inDoubt: store[slot].tries.inDoubt, triedApp: triedApp)
        guard isAttempt else { return body(content, order) }
        return withReasonText(slot, in: store) {
            order.reason = store[slot].answer.reason.text?.lentBytes ?? $0
            return body(content, order)
        }
    }

    private func detail(
        _ slot: NotificationSlot, _ outcome: Outcome, in store: borrowing NotificationStore, tried: PushEnvironment?
    ) -> Detail {
        let record = store[slot].record
        if outcome == .invalid {
            return store[bodyOf: record].isInvalid
                ? store[bodyOf: record].detail : Detail("the device token is not 1 to 100 bytes in hex")
        }
        switch store[slot].answer.remark {
        case .presumed: return Detail("presumed")
        case .badInBoth: return Detail("the device token is bad in both environments")
        case .none: break
        }
        switch tried {
        case .production: return Detail("the token was bad in production")
        case .development: return Detail("the token was bad in development")
        case nil: break
        }
        guard outcome == .expired else { return .none }
        if store[bodyOf: record].isTooOld { return Detail("the request is older than delivery.max_age") }
        return store[bodyOf: record].headers.expiration == 0
            ? Detail("apns-expiration is 0, and the notification would have needed a later send")
            : Detail("apns-expiration has passed")
    }

    private func content(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> NotificationContent {
        let record = store[slot].record
        var place = store[bodyOf: record].request
        place.index &+= store[slot].index
        var headers = store[bodyOf: record].headers
        headers.apnsID = store[bodyOf: record].requestID(index: store[slot].index, isDerived: settings.derivesIDs)
        if headers.apnsID == .none { headers.apnsID = store[slot].answer.apnsID }
        return NotificationContent(
            token: store[slot].token, isBroadcast: store[bodyOf: record].isBroadcast, headers: headers,
            app: Int(store[slot].app), payload: store[bodyOf: record].payload, request: place,
            requestKey: store[bodyOf: record].key, requestedAtMs: store[bodyOf: record].firstMs,
            copiedHeaders: store[bodyOf: record].copiedHeaders)
    }
}

extension Outcome {
    /// The index of this value in `allCases`.
    package var index: Int {
        switch self {
        case .accepted: 0
        case .unregistered: 1
        case .rejected: 2
        case .invalid: 3
        case .expired: 4
        case .abandoned: 5
        }
    }
}

/// The notifications whose records wait for the producer. Each topic has a queue, so an unwritable topic does not delay
/// the others.
struct ProductionQueues: ~Copyable {
    private let queues: UnsafeMutablePointer<RingBuffer<NotificationID>>
    private let queueCount: Int

    init(tiers: Int) {
        queueCount = 2 + tiers
        queues = .allocate(capacity: queueCount)
        for index in 0..<queueCount { (queues + index).initialize(to: RingBuffer(capacity: index == 0 ? 1_024 : 64)) }
    }

    deinit {
        queues.deinitialize(count: queueCount)
        queues.deallocate()
    }

    subscript(target: ProductionTarget) -> RingBuffer<NotificationID> {
        @inline(__always) unsafeAddress { UnsafePointer(queues + index(of: target)) }
        @inline(__always) unsafeMutableAddress { queues + index(of: target) }
    }

    @inline(__always)
    private func index(of target: ProductionTarget) -> Int {
        switch target {
        case .results: return 0
        case .unregistered: return 1
        case .retry(let tier):
            precondition(tier >= 0 && 2 + tier < queueCount, "The index of a retry tier must be in range")
            return 2 + tier
        case .deadLetters: preconditionFailure("The publisher, not the settlement, must queue dead letters")
        }
    }
}

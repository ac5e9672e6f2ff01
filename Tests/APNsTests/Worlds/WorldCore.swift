import Delivery

@testable import APNs

/// A simple delivery machine, which passes notifications to the transport within its capacity, takes completions and
/// retries.
final class WorldCore {
    private enum State: Equatable {
        case waiting(untilNs: Int64)
        /// The notification was handed over, or is in the mailbox.
        case out(serial: Int)
        case done
    }

    private struct Notification {
        var state: State
        var payloadBytes: Int
        var isBroadcast = false
        var isSuspect = false
        var deaths = 0
    }

    private let chronicle: WorldChronicle
    private unowned let host: WorldHost
    private var notifications: [Notification] = []
    /// The commands on their way to the transport, with the step in which they arrive.
    private var mailbox: [(step: Int, command: TransportCommand, tries: [WorldTry])] = []
    private var step = 0
    private var nextSendNs: Int64 = 0
    /// The number of steps that a command takes.
    private let latency: Int
    private let burst: Int
    private let payloadLimit: Int
    /// Whether the host is well, so that only an acceptance may be final.
    var isWell = false
    /// The transport's last reported capacity.
    var capacity = 0
    private(set) var outstanding = 0
    private(set) var accepted = 0
    /// The number of notifications that were given up or finally refused.
    private(set) var ended = 0
    private(set) var open = 0
    /// The number of notifications in the transport, without suspects.
    private(set) var held = 0
    /// The handed-over tries, oldest first. Completed ones are removed when the list is read.
    private var handedTries: [WorldTry] = []

    /// The number of lost connections after which a notification is a suspect.
    private static let suspectAfter = 1
    /// The number of lost connections after which a notification is given up.
    private static let givenUpAfter = 4

    init(_ chronicle: WorldChronicle, _ host: WorldHost, payloadLimit: Int) {
        self.chronicle = chronicle
        self.host = host
        self.payloadLimit = payloadLimit
        latency = chronicle.number(0...3)
        burst = chronicle.pick([1, 5, 40, 40, 200])
    }

    // MARK: Work

    func add(_ count: Int, at ns: Int64) {
        for _ in 0..<count {
            var new = Notification(
                state: .waiting(untilNs: ns),
                payloadBytes: chronicle.chance(85) ? chronicle.number(10...200) : chronicle.number(200...4_096))
            new.isSuspect = chronicle.chance(2)
            new.isBroadcast = payloadLimit < 4_096 && chronicle.chance(1)
            notifications.append(new)
            open += 1
        }
    }

    var count: Int { notifications.count }

    /// Recalls some notifications, whatever their state.
    func recall() {
        let percent = chronicle.pick([5, 50, 100])
        let numbers = notifications.indices.filter { _ in chronicle.chance(percent) }
        post(.recall(numbers.map { NotificationID(slot: NotificationSlot(UInt32($0)), generation: 3) }))
    }

    /// Returns the time of the next action.
    func nextNs(sends: Bool) -> Int64 {
        guard mailbox.isEmpty else { return 0 }
        guard sends else { return .max }
        let room = capacity - outstanding
        var next = Int64.max
        for notification in notifications {
            guard case .waiting(let untilNs) = notification.state, room > 0 || notification.isSuspect else { continue }
            next = min(next, untilNs)
        }
        return next == .max ? .max : max(next, nextSendNs)
    }

    /// Hands over notifications within the capacity.
    func send(nowNs: Int64) {
        guard nowNs >= nextSendNs else { return }
        var room = min(capacity - outstanding, chronicle.number(1...burst))
        var batch: [WorldTry] = []
        for (number, notification) in notifications.enumerated() {
            guard case .waiting(let untilNs) = notification.state, untilNs <= nowNs else { continue }
            if !notification.isSuspect {
                guard room > 0 else { continue }
                room -= 1
                outstanding += 1
            }
            let new = WorldTry(
                serial: UInt32(host.tries.count), number: UInt32(number), payloadBytes: notification.payloadBytes,
                isSuspect: notification.isSuspect, isBroadcast: notification.isBroadcast)
            host.tries.append(new)
            notifications[number].state = .out(serial: Int(new.serial))
            batch.append(new)
        }
        guard !batch.isEmpty else { return }
        nextSendNs = nowNs + chronicle.ms(0...20)
        post(.send(batch.map(\.request)), batch)
    }

    func post(_ command: TransportCommand, _ tries: [WorldTry] = []) {
        mailbox.append((step + latency, command, tries))
    }

    /// Delivers the commands that have arrived.
    func deliver(to transport: any Transport, nowNs: Int64) {
        step += 1
        while let first = mailbox.first, first.step < step {
            mailbox.removeFirst()
            for handed in first.tries { handed.handedNs = nowNs }
            handedTries += first.tries
            held += first.tries.count { !$0.isSuspect }
            if case .recall(let ids) = first.command {
                for case let held? in ids.map(held) where held.handedNs != nil { held.recalledNs = nowNs }
            }
            if !first.tries.isEmpty { chronicle.trace("hands over \(first.tries.count)") }
            transport.handle(first.command)
        }
    }

    /// Whether every command has arrived.
    var isMailTaken: Bool { mailbox.isEmpty }
    /// Drops the commands after the transport's end.
    func dropMail() { mailbox = [] }

    /// Returns the try of a completion, or `nil` if there is none.
    func held(_ id: NotificationID) -> WorldTry? {
        guard Int(id.slot.number) < notifications.count,
            case .out(let serial) = notifications[Int(id.slot.number)].state
        else {
            return nil
        }
        return host.tries[serial]
    }

    // MARK: Completions

    func completed(_ completion: Completion, nowNs: Int64) {
        let number = Int(completion.id.slot.number)
        guard number < notifications.count, completion.id.generation == 3,
            case .out(let serial) = notifications[number].state, host.tries[serial].handedNs != nil
        else { return chronicle.broke("\(completion.kind) for \(number), which is not in the transport") }
        let completed = host.tries[serial]
        chronicle.trace("try \(serial) of \(number): \(completion.kind) \(completion.status) \(completion.unprocessed)")
        completed.isPresumed = completion.isPresumed
        completed.takeBack()
        if !completed.isSuspect {
            outstanding -= 1
            held -= 1
        }
        guard !isDone(completion, number) else {
            if completion.kind == .answered, completion.status == 200 { accepted += 1 } else { ended += 1 }
            notifications[number].state = .done
            open -= 1
            return
        }
        // The capacity does not limit suspects.
        let pauseNs = completed.isSuspect ? chronicle.ms(100...500) : chronicle.ms(0...chronicle.pick([0, 200]))
        notifications[number].state = .waiting(untilNs: nowNs + pauseNs)
    }

    private func isDone(_ completion: Completion, _ number: Int) -> Bool {
        switch completion.kind {
        case .answered: return completion.status == 200 || isWell || chronicle.chance(60)
        case .notProcessed: return completion.unprocessed == .discardedForGood
        case .inDoubt:
            guard completion.connectionDied, !completion.connectionWasSilent else { return false }
            notifications[number].deaths += 1
            if notifications[number].deaths >= Self.suspectAfter {
                chronicle.note("suspect")
                notifications[number].isSuspect = true
            }
            return notifications[number].deaths >= Self.givenUpAfter
        }
    }

    /// Returns the try that has waited longest for its completion. Suspects are ignored, because they may wait long.
    func longestNs(nowNs: Int64) -> (WorldTry, Int64)? {
        handedTries.removeAll(where: \.isCompleted)
        return handedTries.first { !$0.isSuspect }.map { ($0, nowNs - $0.handedNs!) }
    }

    var isNothingHanded: Bool { handedCount == 0 }

    var handedCount: Int { handedTries.count { !$0.isCompleted } }
}

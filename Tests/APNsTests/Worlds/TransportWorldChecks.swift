import Delivery
import EventLoop

@testable import APNs

/// The rules of a transport for any host.
extension TransportWorld {
    /// Recent events. Dials are counted within the first backoff after a failure.
    struct Recent {
        var replacementsNs: [Int64] = []
        var answeredEndsNs: [Int64] = []
        var dialsNs: [Int64] = []
        /// The last dial of an ordinary connection, and of the quarantine connection.
        var last: WorldConnection?
        var lastQuarantine: WorldConnection?

        mutating func forget(before ns: Int64) {
            replacementsNs.removeAll { $0 < ns }
            answeredEndsNs.removeAll { $0 < ns }
            dialsNs.removeAll { $0 < ns }
        }
    }

    // MARK: Dials

    /// Checks a dial before its connection exists.
    func dialled(_ new: WorldConnection) {
        let nowNs = new.dialledNs
        let others = host.standing.filter { $0.isQuarantine == new.isQuarantine }
        chronicle.check(!told.isClosed && !(isClosing && core.isMailTaken), "a closed transport dials")
        if new.isQuarantine {
            chronicle.check(others.allSatisfy { $0.stage == .gone }, "there are two quarantine connections")
        } else {
            chronicle.check(!others.contains { $0.stage == .dialing }, "there are two dials at the same time")
            let live = others.count(where: \.isLive) + 1
            chronicle.check(live <= maximum, "there are \(live) connections, but at most \(maximum) are allowed")
            countDial(nowNs)
            told.noneSinceNs = nil
        }
        let last = new.isQuarantine ? recent.lastQuarantine : recent.last
        if let last, last.replacements == new.replacements, !last.wasReady, !last.wasAnotherReady,
            let goneNs = last.goneNs, !hasAnotherGone(since: last)
        {
            chronicle.check(
                nowNs - goneNs >= backOff.firstNs,
                "#\(new.number) was dialled only \((nowNs - goneNs) / 1_000_000) ms after a failed dial")
        }
        if new.isQuarantine { recent.lastQuarantine = new } else { recent.last = new }
    }

    /// Whether another connection was lost since then. Several lost at once count as one failure with one backoff.
    private func hasAnotherGone(since last: WorldConnection) -> Bool {
        host.connections.contains { $0 !== last && $0.goneNs.map { $0 >= last.dialledNs } ?? false }
    }

    /// Checks that even a badly behaved host is not dialed at a high rate.
    private func countDial(_ nowNs: Int64) {
        recent.forget(before: nowNs - backOff.firstNs + 1)
        recent.dialsNs.append(nowNs)
        let leaving = host.standing.count { $0.answers > 0 && $0.stage == .draining && !$0.isQuarantine }
        let most = maximum + 2 + leaving + recent.answeredEndsNs.count + recent.replacementsNs.count * (maximum + 1)
        chronicle.check(
            recent.dialsNs.count <= most,
            "\(recent.dialsNs.count) dials within \(backOff.firstNs / 1_000_000) ms exceed the limit of \(most)")
    }

    // MARK: Events

    func take(_ events: [TransportEvent]) {
        chronicle.nowNs = time.loop.now.monotonicNs
        chronicle.check(!told.isClosed, "a closed transport reports events: \(events)")
        var rank = 0
        for event in events {
            let own =
                switch event {
                case .credentialRefused: 0
                case .completions: 1
                default: 2
                }
            chronicle.check(own >= rank, "the events are not in the order refusals, completions, others: \(events)")
            rank = own
            take(event)
        }
    }

    private func take(_ event: TransportEvent) {
        switch event {
        case .completions(let batch):
            for completion in batch.completions {
                judge(completion)
                core.completed(completion, nowNs: time.loop.now.monotonicNs)
            }
        case .capacity(_, let requests):
            chronicle.trace("capacity \(requests)")
            chronicle.check(requests >= 0, "the capacity is \(requests)")
            core.capacity = requests
        case .reachable(_, let isReachable): reachable(isReachable)
        case .credentialRefused(_, let reason):
            chronicle.note("credential refused")
            chronicle.trace("\(reason)")
        case .unanswered(_, let how): if how != nil { chronicle.note("unanswered") }
        case .connections(_, let counts): told.connections = counts
        case .note(_, let note): heed(note)
        case .closed:
            chronicle.trace("closed")
            chronicle.check(isClosing, "the transport closed without a close command")
            told.isClosed = true
        }
    }

    private func heed(_ note: TransportNote) {
        chronicle.trace("\(note)")
        switch note {
        case .windowTooShort(_, _, let lostAtMost, _):
            chronicle.note("window too short")
            told.lostAtMost += lostAtMost
        case .noStreams: chronicle.note("no streams")
        case .replacing(let why):
            if why.contains("topics") {
                chronicle.note("renewed for a topic")
                recent.replacementsNs.append(time.loop.now.monotonicNs)
                told.endsInRow = 0
            } else {
                chronicle.note("erring connection replaced")
            }
        default: break
        }
    }

    private func reachable(_ isReachable: Bool) {
        chronicle.trace("reachable \(isReachable)")
        chronicle.check(told.reachable != isReachable, "reachable \(isReachable) is reported twice")
        if isReachable {
            chronicle.check(
                host.standing.contains { $0.wasReady && !$0.isQuarantine },
                "the host is reported as reachable without a connection that was ready")
            chronicle.check(
                told.endsInRow < Reachability.endsLimit,
                "the host is reported as reachable after \(told.endsInRow) consecutive connections without an answer")
        } else {
            chronicle.note("out of reach")
        }
        told.reachable = isReachable
    }

    // MARK: Completions

    /// Checks that a completion agrees with the peer's actions.
    private func judge(_ completion: Completion) {
        guard let held = core.held(completion.id) else { return }
        let connection = held.connection
        let name = "try \(held.serial) on \(connection.map { "#\($0.number)" } ?? "no connection")"
        switch completion.kind {
        case .answered where isBinary: judgeGateway(completion, held, name)
        case .answered:
            chronicle.check(
                held.statusSaid == completion.status,
                "the status is \(completion.status) for \(name), but the peer sent \(held.statusSaid.map { "\($0)" } ?? "none")"
            )
        case .notProcessed:
            chronicle.check(
                !held.isDelivered || held.isDenied || connection?.lies == true,
                "the completion is notProcessed, but the peer has delivered \(name)")
        case .inDoubt:
            chronicle.check(completion.sentAtMs != 0, "the completion is inDoubt, but no connection has sent \(name)")
            guard completion.connectionDied, let connection else { return }
            chronicle.check(
                connection.channel?.isOpen != true, "connectionDied is true, but the connection of \(name) is open")
        }
        guard completion.kind == .answered else { return }
        told.endsInRow = 0
        if isBinary, completion.status == 200 { connection?.answers += 1 }
    }

    private func judgeGateway(_ completion: Completion, _ held: WorldTry, _ name: String) {
        guard let connection = held.connection else {
            // A request that a gateway would refuse is not sent. A gateway that lies may name a frame that it has not
            // read.
            return chronicle.check(
                completion.status == 7 || held.isBroadcast || host.connections.contains(where: \.lies),
                "the status is \(completion.status) for \(name), which the gateway never received")
        }
        let nowNs = time.loop.now.monotonicNs
        if completion.isPresumed {
            let silentNs = held.acknowledgedNs.map { nowNs - $0 } ?? -1
            chronicle.check(
                silentNs >= binary.window.durationNs,
                "\(silentNs / 1_000_000) ms of silence accepted \(name), but the window is "
                    + "\(binary.window.durationNs / 1_000_000) ms"
            )
            let waitedNs = connection.waitingSinceNs.map { nowNs - $0 } ?? 0
            chronicle.check(
                waitedNs < 1_050_000_000,
                "silence accepted \(name), but the peer has read nothing for \(waitedNs / 1_000_000) ms")
        } else if completion.status == 200 {
            chronicle.check(
                held.isDelivered || connection.lies, "the status is 200, but the peer has not delivered \(name)")
        } else if !connection.lies {
            let said = held.statusSaid.map { GatewayAnswer(status: UInt8($0), identifier: 0).resultStatus }
            chronicle.check(
                said == completion.status,
                "the status is \(completion.status) for \(name), but the gateway sent \(said ?? 0)")
        }
    }

    // MARK: Each turn

    /// The time of the current turn. The next turn may be later.
    private var turnNs: Int64 { time.loop.now.monotonicNs }

    func check() {
        chronicle.nowNs = turnNs
        host.look()
        for gone in host.takeGone() where !gone.isQuarantine { ended(gone) }
        if !isClosing {
            checkCounts()
            checkRoom()
        }
        for peer in host.peers { peer.check(turn: turns) }
        guard turns & 63 == 0, let (oldest, waitedNs) = core.longestNs(nowNs: turnNs) else { return }
        // A window of one notification sends what a wider window has queued one after another.
        let isNarrow = isBinary && binary.window.notifications == 1
        let queuedNs = isNarrow ? Int64(core.handedCount) * binary.window.longestNs : 0
        chronicle.check(
            waitedNs < Self.longestNs + queuedNs,
            "try \(oldest.serial) has no completion after \(waitedNs / 1_000_000_000) s")
    }

    /// The longest time in flight, including all pauses and timeouts of a world.
    private static let longestNs: Int64 = 200_000_000_000

    private func ended(_ gone: WorldConnection) {
        if gone.answers > 0 {
            recent.answeredEndsNs.append(turnNs)
            told.endsInRow = 0
        }
        guard gone.replacements == recent.last?.replacements, !isClosing else { return }
        // With format `simple`, the end may be the answer.
        if gone.answers == 0, gone.wasSeenReady, gone.endedByPeer, !isBinary || binary.format != .simple,
            gone.wasAsked || turnNs - gone.dialledNs < Reachability.shortLifeNs
        {
            told.endsInRow += 1
        }
        if !gone.wasReady, !gone.wasAnotherReady,
            !host.standing.contains(where: { !$0.isQuarantine && $0.stage != .dialing })
        {
            chronicle.check(
                told.reachable == false,
                "dial #\(gone.number) failed and no connection is ready, but the host is not unreachable")
        }
    }

    /// Checks that the reported connections are the existing ones.
    private func checkCounts() {
        var counts = ConnectionCounts()
        for connection in host.standing {
            switch connection.stage {
            case .dialing: counts.dialing += 1
            case .ready: counts.open += 1
            case .draining: counts.draining += 1
            case .gone: break
            }
        }
        counts.streams = told.connections.streams
        var said = told.connections
        if isBinary {
            // A connection on probation belongs to the pool but takes no requests.
            counts.open += counts.draining
            counts.draining = 0
            said.open += said.draining
            said.draining = 0
        }
        chronicle.check(counts == said, "the transport reports \(said), but there are \(counts)")
        let dialing = host.standing.count { $0.stage == .dialing && !$0.isQuarantine }
        chronicle.check(dialing <= 1, "there are \(dialing) dials at the same time")
        let live = liveCount
        chronicle.check(live <= maximum, "there are \(live) connections, but at most \(maximum) are allowed")
        let sinceNs = live > 0 || isBinary || minimum == 0 ? nil : told.noneSinceNs ?? turnNs
        told.noneSinceNs = sinceNs
        guard let sinceNs else { return }
        // If the process was stopped, the timer of the next dial is late too.
        chronicle.check(
            turnNs - sinceNs <= backOff.lastNs + 10_000_000 || hasJustStoodStill,
            "there was neither a connection nor a dial for \((turnNs - sinceNs) / 1_000_000) ms")
    }

    /// Checks that the transport has no capacity and keeps no requests if there is no connection for them.
    private func checkRoom() {
        if core.capacity == 0, !host.standing.contains(where: { !$0.isQuarantine }) {
            chronicle.check(core.held == 0, "the transport keeps \(core.held) requests without capacity and connection")
        }
        guard !isBinary, minimum > 0, let last = recent.last, last.goneNs != nil,
            !host.standing.contains(where: { $0.stage == .ready && !$0.isQuarantine })
        else { return }
        chronicle.check(core.capacity == 0, "the capacity is \(core.capacity), but no connection is ready")
    }

    /// The number of live connections without the quarantine connection.
    var liveCount: Int { host.standing.count { $0.isLive && !$0.isQuarantine } }
}

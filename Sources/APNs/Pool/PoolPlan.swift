internal import PushTransport

/// Decides when to dial a connection and when to stop using one. A value machine; the transport does what it says.
///
/// At most one dial is under way; after a failure the next one waits (`BackOff`). Serial numbers name connections, and
/// are never used twice. With a minimum of 0 an unused pool sleeps until a connection is wanted. If connections fail,
/// it goes on dialling until one has answered, which shows whether the host is of use.
///
/// The quarantine connection that suspects share has a plan of its own. That plan dials only when a suspect waits, so
/// each `wanted` is for one connection.
struct PoolPlan {
    typealias ConnectionID = Int

    enum Event {
        /// Something waits, and there is no connection (`isAsleep`).
        case wanted
        /// The connection is ready: handshake done and SETTINGS seen.
        case opened(ConnectionID)
        case answered(ConnectionID)
        /// It takes no more requests: GOAWAY, stream ids at their end, an answer that asks for a new connection.
        case retired(ConnectionID, isFault: Bool)
        /// It is gone, or never came to be.
        case closed(ConnectionID)
        /// Every stream was taken for a while, and the thread had time to spare.
        case saturated
        /// What fails on a connection takes much of what else is on it with it: more connections share that.
        case crowded
        /// Before more are made, one has to answer.
        case onProbation
        case idle(ConnectionID)
        /// Open for as long as a connection may be: it goes on until another one is ready.
        case aged(ConnectionID)
        /// The time asked for by `wake` has come, or the pool begins.
        case due
        /// All connections are to be replaced by ones made with these limits and the present configuration.
        case replace(minimum: Int, maximum: Int)
        /// No more connections; those there are drain.
        case close
    }

    enum Action: Equatable {
        /// Begins with another of the host's addresses each time.
        case dial(ConnectionID)
        /// Take no more requests on it; it closes when its last one is answered.
        case drain(ConnectionID)
        /// Say `due` then; replaces an earlier one.
        case wake(afterNs: Int64)
    }

    private enum Waiting { case toConnect, toGrow }

    private enum Phase { case dialing, open, draining }

    private struct Connection {
        var id: ConnectionID
        var phase: Phase
        var wasAnswered = false
        var isAged = false
    }

    private var minimum: Int
    private var maximum: Int
    private let isOfQuarantine: Bool
    /// The longest wait after a connection that was open, whatever the backoff says.
    var longestWaitNs = Int64.max
    private var wanted: Int
    private var connections: [Connection] = []
    private var nextID = 0
    private var backOff: BackOff
    /// Of dials for more than there is: while they fail, what there is may end and has to be replaced at once.
    private var growthBackOff: BackOff
    private var waiting: Waiting?
    private var isOnProbation = false
    private(set) var lastWaitNs: Int64 = 0
    private var isClosing = false

    init(minimum: Int, maximum: Int, isOfQuarantine: Bool = false, backOff: BackOff = BackOff()) {
        self.minimum = minimum
        self.maximum = maximum
        self.isOfQuarantine = isOfQuarantine
        wanted = minimum
        self.backOff = backOff
        growthBackOff = backOff
    }

    /// - Returns: what to do, in order; rare, so a fresh array.
    mutating func handle(_ event: Event, using random: inout some RandomNumberGenerator) -> [Action] {
        switch event {
        case .wanted: wanted = max(1, wanted)
        case .opened(let id):
            guard let index = index(id), connections[index].phase == .dialing else { break }
            connections[index].phase = .open
            if let aged = connections.firstIndex(where: { $0.isAged && $0.phase == .open }) {
                connections[aged].phase = .draining
                return [.drain(connections[aged].id)] + dialIfWanted()
            }
        case .onProbation:
            isOnProbation = true
            return []
        case .answered(let id):
            backOff.succeeded()
            isOnProbation = false
            if let index = index(id) {
                if live > minimum { growthBackOff.succeeded() }
                connections[index].wasAnswered = true
            }
            return []
        case .retired(let id, let isFault): return retire(id, isFault: isFault, using: &random)
        case .closed(let id): return remove(id, using: &random)
        case .saturated:
            // One at a time: a connection that has not answered yet may be about to take it all.
            guard waiting == nil, wanted < maximum, live > 0, live >= wanted,
                connections.allSatisfy({ $0.phase != .dialing && $0.wasAnswered })
            else { return [] }
            wanted += 1
        case .crowded:
            // What it replaces is mostly being dialled: the next one is dialled after that.
            guard waiting == nil, wanted < maximum, live >= wanted else { return [] }
            wanted += 1
        case .idle(let id):
            guard let index = index(id), connections[index].phase == .open, live > minimum,
                live > 1 || backOff.failures == 0 || connections[index].wasAnswered || isOfQuarantine
            else { return [] }
            // What is asleep dials at once when it is wanted.
            if live == 1, !isOfQuarantine { backOff.succeeded() }
            connections[index].phase = .draining
            wanted = max(minimum, live)
            return [.drain(id)]
        case .aged(let id):
            guard let index = index(id), connections[index].phase == .open else { return [] }
            connections[index].isAged = true
        case .due: waiting = nil
        case .replace(let minimum, let maximum): return replace(minimum: minimum, maximum: maximum)
        case .close: return close()
        }
        return dialIfWanted()
    }

    /// Connections that are, or are about to be, of use, without those that others are to replace.
    var live: Int { connections.count { $0.phase != .draining && !$0.isAged } }

    /// Nothing is left after `close`.
    var isFinished: Bool { isClosing && connections.isEmpty }

    /// There is no connection, none is under way, and no failure is waited for: `wanted` dials one.
    var isAsleep: Bool { wanted == 0 && live == 0 && !isClosing }

    /// What has no connection yet may be handed over: one is dialled for it, or is under way after nothing failed.
    var isOnDemand: Bool { minimum == 0 && backOff.failures == 0 && !isClosing }

    var counts: ConnectionCounts {
        var counts = ConnectionCounts()
        for connection in connections {
            switch connection.phase {
            case .dialing: counts.dialing += 1
            case .open: counts.open += 1
            case .draining: counts.draining += 1
            }
        }
        return counts
    }

    var failures: Int { backOff.failures }

    private func index(_ id: ConnectionID) -> Int? { connections.firstIndex { $0.id == id } }

    private mutating func dialIfWanted() -> [Action] {
        let wanted = isOnProbation ? min(wanted, 1) : wanted
        guard !isClosing, waiting != .toConnect, live < wanted, connections.allSatisfy({ $0.phase != .dialing }) else {
            return []
        }
        let id = nextID
        nextID += 1
        connections.append(Connection(id: id, phase: .dialing))
        return [.dial(id)]
    }

    private mutating func retire(
        _ id: ConnectionID, isFault: Bool, using random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard let index = index(id), connections[index].phase != .draining else { return [] }
        // One that never answered, or whose end was asked for by a fault, is not replaced at once.
        let mustWait = isFault || !connections[index].wasAnswered
        connections[index].phase = .draining
        // An app that still has something to send wants the next one. A pool that has failed since its last answer
        // takes nothing before it has a connection again, so it has to dial by itself.
        if isOfQuarantine || minimum == 0 && live == 0 && !mustWait && backOff.failures == 0 { wanted = 0 }
        return [.drain(id)] + (mustWait ? wait(atMostNs: longestWaitNs, using: &random) : dialIfWanted())
    }

    private mutating func remove(
        _ id: ConnectionID, using random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard let index = index(id) else { return [] }
        let connection = connections.remove(at: index)
        if isClosing { return [] }
        switch connection.phase {
        case .draining: return dialIfWanted()
        case .dialing where live >= minimum && connections.contains { $0.phase == .open && $0.wasAnswered }:
            // It was to be one more: those there are go on, and another is wanted when they say so again.
            wanted = max(minimum, live)
            guard waiting == nil else { return [] }
            waiting = .toGrow
            lastWaitNs = growthBackOff.failed(using: &random)
            return [.wake(afterNs: lastWaitNs)]
        case .dialing: return wait(atMostNs: .max, using: &random)
        case .open: return wait(atMostNs: longestWaitNs, using: &random)
        }
    }

    private mutating func wait(atMostNs: Int64, using random: inout some RandomNumberGenerator) -> [Action] {
        guard !isClosing else { return [] }
        // Several lost at once are one failure.
        if waiting == .toConnect { return [] }
        waiting = .toConnect
        wanted = isOfQuarantine ? 0 : max(1, wanted)
        lastWaitNs = min(atMostNs, backOff.failed(using: &random))
        return [.wake(afterNs: lastWaitNs)]
    }

    /// What failed with the old settings is no reason to wait with the new ones.
    private mutating func replace(minimum: Int, maximum: Int) -> [Action] {
        guard !isClosing else { return [] }
        self.minimum = minimum
        self.maximum = maximum
        wanted = isOfQuarantine ? 0 : min(max(wanted, minimum), maximum)
        backOff.succeeded()
        growthBackOff.succeeded()
        waiting = nil
        isOnProbation = false
        return drainAll() + dialIfWanted()
    }

    private mutating func close() -> [Action] {
        guard !isClosing else { return [] }
        isClosing = true
        return drainAll()
    }

    private mutating func drainAll() -> [Action] {
        var actions: [Action] = []
        for index in connections.indices where connections[index].phase != .draining {
            connections[index].phase = .draining
            actions.append(.drain(connections[index].id))
        }
        return actions
    }
}

/// How long to wait before the next dial: doubling from 1 s to 60 s, with jitter. A response resets it. A handshake
/// does not, because a server that accepts every connection and answers no request must not be dialled at a high rate.
package struct BackOff: Sendable {
    package struct Limits: Sendable {
        package var firstNs: Int64 = 1_000_000_000
        package var lastNs: Int64 = 60_000_000_000
    }

    private let limits: Limits
    package private(set) var failures = 0

    package init(limits: Limits = Limits()) { self.limits = limits }

    package mutating func succeeded() { failures = 0 }

    /// Counts a failure; returns how many nanoseconds to wait: 1, 2, 4, … times the first, give or take a quarter.
    package mutating func failed(using random: inout some RandomNumberGenerator) -> Int64 {
        let doubled = limits.firstNs.multipliedReportingOverflow(by: 1 << Int64(min(failures, 32)))
        failures += 1
        let base = doubled.overflow ? limits.lastNs : min(doubled.partialValue, limits.lastNs)
        let jittered = base / 4 * 3 + Int64.random(in: 0...(base / 2), using: &random)
        return min(max(jittered, limits.firstNs), limits.lastNs)
    }
}

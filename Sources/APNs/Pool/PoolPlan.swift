internal import PushTransport

/// Decides when to dial a connection and when to retire one. The transport performs the actions.
///
/// At most one dial is under way. After a failure the next dial is delayed (`BackOff`). Each connection has a unique
/// serial number. With a minimum of 0 an unused pool sleeps until a connection is wanted. After a failure and after the
/// event `mustProve` the pool dials until the host has answered on one connection, which shows that the host works.
///
/// Suspects share a quarantine connection, which has its own plan. That plan dials only when a suspect waits, and each
/// event `wanted` dials one connection.
struct PoolPlan {
    typealias ConnectionID = Int

    enum Event {
        /// Requests wait, and there is no connection (`isAsleep`).
        case wanted
        /// The connection is ready: the handshake is done and SETTINGS has arrived.
        case opened(ConnectionID)
        case answered(ConnectionID)
        /// The connection takes no more requests: after a GOAWAY, at the last stream id, or after an answer that
        /// requires a new connection.
        case retired(ConnectionID, isFault: Bool)
        /// The connection is closed, or could not be opened.
        case closed(ConnectionID)
        /// All streams were in use for a while, and the thread was not busy.
        case saturated
        /// A connection failed with open requests, or an error discarded many. With more connections, each failure
        /// affects fewer requests.
        case crowded
        /// The gateway must answer a fence (`BinaryTransport.mustProve`). Until it does, the pool wants exactly one
        /// connection.
        case mustProve
        case idle(ConnectionID)
        /// The connection has reached its age limit. It stays in use until another one is ready.
        case aged(ConnectionID)
        /// The time of a `wake` action has come, or the pool starts.
        case due
        /// Replace all connections. The pool then has these limits, and the new connections use the new configuration.
        case replace(minimum: Int, maximum: Int)
        /// Open no more connections, and drain the existing ones.
        case close
    }

    enum Action: Equatable {
        /// Dial a connection, each time beginning with another address of the host.
        case dial(ConnectionID)
        /// Send no more requests on the connection. It closes after its last answer.
        case drain(ConnectionID)
        /// Pass the event `due` to the plan after this time. A later `wake` replaces an earlier one.
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
    /// The maximum wait for the next dial after an open connection was lost, regardless of the backoff.
    var longestWaitNs = Int64.max
    private var wanted: Int
    private var connections: [Connection] = []
    private var nextID = 0
    private var backOff: BackOff
    /// The backoff of dials for additional connections. It is separate from the plan's main backoff, so that it does
    /// not delay the replacement of lost connections.
    private var growthBackOff: BackOff
    private var waiting: Waiting?
    private var mustProve = false
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

    /// Handles an event, and returns the actions to perform, in order. Actions are rare, so each call may allocate an
    /// array.
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
        case .mustProve: mustProve = true
        case .answered(let id):
            backOff.succeeded()
            mustProve = false
            if let index = index(id) {
                if live > minimum { growthBackOff.succeeded() }
                connections[index].wasAnswered = true
            }
            return []
        case .retired(let id, let isFault): return retire(id, isFault: isFault, using: &random)
        case .closed(let id): return remove(id, using: &random)
        case .saturated:
            // Add one connection at a time, because a connection that has not answered yet may turn out to be enough.
            guard waiting == nil, wanted < maximum, live > 0, live >= wanted,
                connections.allSatisfy({ $0.phase != .dialing && $0.wasAnswered })
            else { return [] }
            wanted += 1
        case .crowded:
            // The failed connection's replacement is probably being dialed. The additional connection is dialed after
            // it.
            guard waiting == nil, wanted < maximum, live >= wanted else { return [] }
            wanted += 1
        case .idle(let id):
            guard let index = index(id), connections[index].phase == .open, live > minimum,
                live > 1 || backOff.failures == 0 || connections[index].wasAnswered || isOfQuarantine
            else { return [] }
            // A pool without connections must dial without backoff when requests arrive again.
            if live == 1, !isOfQuarantine { backOff.succeeded() }
            connections[index].phase = .draining
            wanted = max(minimum, live)
            return [.drain(id)]
        case .aged(let id):
            guard let index = index(id), connections[index].phase == .open else { return [] }
            connections[index].isAged = true
        case .due: waiting = nil
        case .replace(let minimum, let maximum): return replace(minimum: minimum, maximum: maximum)
        case .close:
            isClosing = true
            return drainAll()
        }
        return dialIfWanted()
    }

    /// The number of connections that are or will be usable, not counting those that are being replaced.
    var live: Int { connections.count { $0.phase != .draining && !$0.isAged } }

    /// Whether no connection is left after `close`.
    var isFinished: Bool { isClosing && connections.isEmpty }

    /// Whether no connection is usable, being dialed or wanted. Waiting requests must then cause the event `wanted`.
    var isAsleep: Bool { wanted == 0 && live == 0 && !isClosing }

    /// Whether the pool accepts requests without a connection: it dials one on demand, and no dial has failed.
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
        // Until the gateway has answered a fence, the pool may accept no request that would wake it, so it does not
        // sleep.
        let wanted = mustProve ? 1 : wanted
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
        // A connection that ended by a fault, or on which APNs never answered, is replaced only after the backoff.
        let mustWait = isFault || !connections[index].wasAnswered
        connections[index].phase = .draining
        // A pool without connections dials when the app sends again. After a failure the pool accepts no requests
        // before a connection is ready, so it must dial without a request.
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
        case .dialing where live >= max(1, minimum) && connections.contains { $0.phase == .open && $0.wasAnswered }:
            // The failed dial was for an additional connection. No other one is dialed until the existing connections
            // are saturated again.
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
        // Several connections lost at once count as one failure.
        if waiting == .toConnect { return [] }
        waiting = .toConnect
        wanted = isOfQuarantine ? 0 : max(1, wanted)
        lastWaitNs = min(atMostNs, backOff.failed(using: &random))
        return [.wake(afterNs: lastWaitNs)]
    }

    /// Replaces all connections. Failures with the old settings do not delay the new ones.
    private mutating func replace(minimum: Int, maximum: Int) -> [Action] {
        guard !isClosing else { return [] }
        self.minimum = minimum
        self.maximum = maximum
        wanted = isOfQuarantine ? 0 : min(max(wanted, minimum), maximum)
        backOff.succeeded()
        growthBackOff.succeeded()
        waiting = nil
        mustProve = false
        return drainAll() + dialIfWanted()
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

/// The wait before the next dial. It doubles from 1 s to 60 s, with jitter. A response resets the wait. A handshake
/// does not, because a server that accepts connections and answers no request must not be dialed at a high rate.
package struct BackOff: Sendable {
    package struct Limits: Sendable {
        package var firstNs: Int64 = 1_000_000_000
        package var lastNs: Int64 = 60_000_000_000
    }

    private let limits: Limits
    package private(set) var failures = 0

    package init(limits: Limits = Limits()) { self.limits = limits }

    package mutating func succeeded() { failures = 0 }

    /// Counts a failure and returns the wait in nanoseconds: 1, 2, 4, … times `firstNs`, up to `lastNs`, with jitter.
    package mutating func failed(using random: inout some RandomNumberGenerator) -> Int64 {
        let doubled = limits.firstNs.multipliedReportingOverflow(by: 1 << Int64(min(failures, 32)))
        failures += 1
        let base = doubled.overflow ? limits.lastNs : min(doubled.partialValue, limits.lastNs)
        let jittered = base / 4 * 3 + Int64.random(in: 0...(base / 2), using: &random)
        return min(max(jittered, limits.firstNs), limits.lastNs)
    }
}

/// Detects that the thread waited while every stream was in use. More connections then raise the throughput.
/// They would not if the thread were busy.
struct Saturation: Sendable {
    private static let periodNs: Int64 = 100_000_000

    private var periodBeganNs: Int64 = 0
    private var lastEndedNs: Int64 = 0
    private var wasFull = false
    private var waitedFullNs: Int64 = 0

    /// Records a turn and whether every stream was in use after it. Returns `true` at the end of a period if the thread
    /// waited for more than half of the period with every stream in use.
    mutating func turned(isFull: Bool, beganNs: Int64, endedNs: Int64) -> Bool {
        if periodBeganNs == 0 { periodBeganNs = max(1, beganNs) }
        if wasFull { waitedFullNs += max(0, beganNs - lastEndedNs) }
        wasFull = isFull
        lastEndedNs = endedNs
        let spanNs = endedNs - periodBeganNs
        guard spanNs >= Self.periodNs else { return false }
        let isSaturated = waitedFullNs > spanNs / 2
        periodBeganNs = endedNs
        waitedFullNs = 0
        return isSaturated
    }
}

internal import PushTransport

/// Decides when an app has the quarantine connection that suspects share: a value machine.
///
/// It is dialled when a suspect waits, and again only when it is gone. After a death or a failed dial the next one
/// waits (`BackOff`); after a death at most four seconds while the host answers others: then its suspects are what ends
/// it, and each of them is tried a few times only.
struct Quarantine {
    enum Event {
        case wanted
        case opened
        case answered
        case retired(isFault: Bool)
        /// It is gone, or never came to be.
        case closed
        case idle
        case due
        /// It is to be replaced by one made with the present configuration.
        case replace
        case close
    }

    enum Action: Equatable {
        /// Never twice with the same number.
        case dial(Int)
        /// Take no more requests on it; it closes when its last one is answered.
        case drain
        /// Say `due` then.
        case wake(afterNs: Int64)
        /// Return the waiting suspects as not processed, because the dial failed.
        case giveBack
        /// The connection is unused: what is known of those it died under is of no use any more.
        case forget
    }

    private enum Phase { case none, dialing, open, draining(mustWait: Bool), waiting, closed }

    private var phase = Phase.none
    private var nextID = 0
    private var backOff: BackOff
    private(set) var lastWaitNs: Int64 = 0
    /// The host answers on other connections, as far as is known.
    var doesHostAnswer = true

    private static let deathWaitNs: Int64 = 4_000_000_000

    init(backOff: BackOff = BackOff()) { self.backOff = backOff }

    var failures: Int { backOff.failures }

    mutating func handle(_ event: Event, using random: inout some RandomNumberGenerator) -> [Action] {
        switch (phase, event) {
        case (.none, .wanted):
            phase = .dialing
            nextID += 1
            return [.dial(nextID - 1)]
        case (.dialing, .opened):
            phase = .open
            return []
        case (.open, .answered):
            backOff.succeeded()
            return []
        case (.dialing, .closed): return [.giveBack] + wait(atMostNs: .max, using: &random)
        case (.open, .closed), (.draining(mustWait: true), .closed):
            return wait(atMostNs: doesHostAnswer ? Self.deathWaitNs : .max, using: &random)
        case (.open, .retired(let isFault)): return drain(mustWait: isFault)
        case (.open, .idle): return [.forget] + drain(mustWait: false)
        case (.draining(mustWait: false), .closed), (.waiting, .due):
            phase = .none
            return []
        case (.dialing, .replace), (.open, .replace), (.draining, .replace):
            backOff.succeeded()
            return drain(mustWait: false)
        case (.waiting, .replace), (.none, .replace):
            backOff.succeeded()
            phase = .none
            return []
        case (.dialing, .close), (.open, .close), (.draining, .close):
            phase = .closed
            return [.drain]
        case (.none, .close), (.waiting, .close):
            phase = .closed
            return []
        // Suspects come, and the connection reports, whatever it is at; nothing is decided after `close`.
        default: return []
        }
    }

    func count(in counts: inout ConnectionCounts) {
        switch phase {
        case .none, .waiting, .closed: break
        case .dialing: counts.dialing += 1
        case .open: counts.open += 1
        case .draining: counts.draining += 1
        }
    }

    private mutating func drain(mustWait: Bool) -> [Action] {
        phase = .draining(mustWait: mustWait)
        return [.drain]
    }

    private mutating func wait(atMostNs: Int64, using random: inout some RandomNumberGenerator) -> [Action] {
        phase = .waiting
        lastWaitNs = min(atMostNs, backOff.failed(using: &random))
        return [.wake(afterNs: lastWaitNs)]
    }
}

package import PushTransport

/// When an app has its quarantine connection, the one that suspects share: a value machine; the transport does what it
/// says.
///
/// It is dialled when a suspect waits, stays as long as it is of use, and is dialled again only when it is gone. After
/// a death, or a dial that failed, the next one waits (`BackOff`); after a death no longer than four seconds while the
/// host answers others: then its suspects are what ends it, and each of them is tried a few times only.
package struct Quarantine: Sendable {
    package enum Event: Sendable, Equatable {
        /// A suspect waits.
        case wanted
        /// The connection is ready.
        case opened
        /// Its first response came.
        case answered
        /// It takes no more requests.
        case retired(isFault: Bool)
        /// It is gone, or never came to be.
        case closed
        /// Unused for long.
        case idle
        /// The time asked for by `wake` has come.
        case due
        /// It is to be replaced by one made with the present configuration.
        case replace
        case close
    }

    package enum Action: Sendable, Equatable {
        /// Never twice with the same number.
        case dial(Int)
        /// Take no more requests on it; it closes when its last one is answered.
        case drain
        /// Say `due` then.
        case wake(afterNs: Int64)
        /// The dial failed: whoever waits is not processed.
        case giveBack
        /// Nobody needed it any more: what was known of those who died here is of no use.
        case forget
    }

    private enum Phase: Sendable, Equatable { case none, dialing, open, draining(mustWait: Bool), waiting, closed }

    private var phase = Phase.none
    private var nextID = 0
    private var backOff: BackOff
    /// The wait asked for last.
    package private(set) var lastWaitNs: Int64 = 0
    /// The host answers on other connections, as far as is known.
    package var doesHostAnswer = true

    private static let deathWaitNs: Int64 = 4_000_000_000

    package init(backOff: BackOff = BackOff()) { self.backOff = backOff }

    package var failures: Int { backOff.failures }

    package mutating func handle(_ event: Event, using random: inout some RandomNumberGenerator) -> [Action] {
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
        // SETTINGS come again; on a connection that drains answers come as before, and another GOAWAY; one may come
        // before SETTINGS.
        case (.open, .opened), (.draining, .opened), (.draining, .answered), (.draining, .retired),
            (.dialing, .retired),
            // Suspects come while it is there, or waited for.
            (.dialing, .wanted), (.open, .wanted), (.draining, .wanted), (.waiting, .wanted),
            // The alarm of a wait that `replace` ended.
            (.none, .due), (.dialing, .due), (.open, .due), (.draining, .due),
            // Nothing is decided any more.
            (.closed, _):
            return []
        case (.none, .opened), (.none, .answered), (.none, .retired), (.none, .closed), (.none, .idle),
            (.waiting, .opened), (.waiting, .answered), (.waiting, .retired), (.waiting, .closed), (.waiting, .idle),
            (.dialing, .answered), (.dialing, .idle), (.draining, .idle):
            preconditionFailure("a connection that is not there, or not ready, says nothing: \(event) in \(phase)")
        }
    }

    /// Adds its connection.
    package func count(in counts: inout ConnectionCounts) {
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

/// When a connection is to be asked whether it lives, and when it does not: a value machine of one connection.
///
/// Idle: a PING after 60 s. Something unanswered: a PING after 5 s in which nothing came. Dead: nothing came within 10
/// s after a PING. Times are monotonic nanoseconds.
package struct Keepalive: Sendable, Equatable {
    package struct Limits: Sendable, Equatable {
        package var idleNs: Int64 = 60_000_000_000
        package var silentNs: Int64 = 5_000_000_000
        package var deadNs: Int64 = 10_000_000_000

        package init() {}
    }

    package enum Need: Sendable, Equatable {
        case nothing, ping
        /// Nothing came since the PING of that time.
        case dead(pingedNs: Int64)
    }

    private let limits: Limits
    /// When bytes came last.
    package private(set) var heardNs: Int64
    /// When the oldest stretch of waiting began; 0: nothing is unanswered.
    private var waitingSinceNs: Int64 = 0
    /// When a PING went out that nothing came after; 0: none.
    private var pingedNs: Int64 = 0

    package init(limits: Limits = Limits(), nowNs: Int64) {
        self.limits = limits
        heardNs = nowNs
    }

    /// Bytes came from the peer.
    package mutating func heard(nowNs: Int64) {
        heardNs = nowNs
        pingedNs = 0
    }

    /// Records how many requests are unanswered now.
    package mutating func waits(for unanswered: Int, nowNs: Int64) {
        if unanswered == 0 { waitingSinceNs = 0 } else if waitingSinceNs == 0 { waitingSinceNs = max(1, nowNs) }
    }

    /// What is due; `ping` counts as done.
    package mutating func check(nowNs: Int64) -> Need {
        guard nextDeadlineNs <= nowNs else { return .nothing }
        if pingedNs != 0 { return .dead(pingedNs: pingedNs) }
        pingedNs = max(1, nowNs)
        return .ping
    }

    /// A PING is out and nothing came since: the connection may be dead.
    package var isInQuestion: Bool { pingedNs != 0 }

    package var nextDeadlineNs: Int64 {
        if pingedNs != 0 { return pingedNs + limits.deadNs }
        if waitingSinceNs != 0 { return max(heardNs, waitingSinceNs) + limits.silentNs }
        return heardNs + limits.idleNs
    }
}

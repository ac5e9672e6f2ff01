/// When a connection is to be asked whether it lives, and when it does not: a value machine of one connection.
///
/// Idle: a PING after 60 s. Something unanswered: a PING after 5 s in which nothing came. Dead: nothing came within 10
/// s after a PING. Times are monotonic nanoseconds.
package struct Keepalive {
    package struct Limits: Sendable, Equatable {
        package var idleNs: Int64 = 60_000_000_000
        package var silentNs: Int64 = 5_000_000_000
        package var deadNs: Int64 = 10_000_000_000
    }

    enum Need: Equatable {
        case nothing, ping
        /// Nothing came since the PING of that time.
        case dead(pingedNs: Int64)
    }

    private let limits: Limits
    private(set) var receivedNs: Int64
    /// When the present stretch of waiting began, or 0 if nothing is unanswered.
    private var waitingSinceNs: Int64 = 0
    /// When a PING went out that nothing came after, or 0.
    private var pingedNs: Int64 = 0

    init(limits: Limits = Limits(), nowNs: Int64) {
        self.limits = limits
        receivedNs = nowNs
    }

    mutating func received(nowNs: Int64) {
        receivedNs = nowNs
        pingedNs = 0
    }

    mutating func waits(for unanswered: Int, nowNs: Int64) {
        if unanswered == 0 { waitingSinceNs = 0 } else if waitingSinceNs == 0 { waitingSinceNs = max(1, nowNs) }
    }

    /// What is due; `ping` counts as done.
    mutating func check(nowNs: Int64) -> Need {
        guard nextDeadlineNs <= nowNs else { return .nothing }
        if pingedNs != 0 { return .dead(pingedNs: pingedNs) }
        pingedNs = max(1, nowNs)
        return .ping
    }

    /// A PING is out and nothing came since: the connection may be dead.
    var isInQuestion: Bool { pingedNs != 0 }

    var nextDeadlineNs: Int64 {
        if pingedNs != 0 { return pingedNs + limits.deadNs }
        if waitingSinceNs != 0 { return max(receivedNs, waitingSinceNs) + limits.silentNs }
        return receivedNs + limits.idleNs
    }
}

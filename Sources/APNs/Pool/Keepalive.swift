/// Decides when to send a PING on a connection, and when the connection is dead.
///
/// With the default limits, a PING is due after 60 s without a received byte. While a request is unanswered, a PING is
/// due after 5 s without a received byte, but not earlier than 5 s after the request. If nothing arrives within 10 s
/// after a PING, the connection is dead. Times are monotonic nanoseconds.
package struct Keepalive {
    package struct Limits: Sendable, Equatable {
        package var idleNs: Int64 = 60_000_000_000
        package var silentNs: Int64 = 5_000_000_000
        package var deadNs: Int64 = 10_000_000_000
    }

    enum Need: Equatable {
        case nothing, ping
        /// Nothing arrived since the PING at `pingedNs`.
        case dead(pingedNs: Int64)
    }

    private let limits: Limits
    private(set) var receivedNs: Int64
    /// The time at which the current wait for an answer began, or 0 if no request is unanswered.
    private var waitingSinceNs: Int64 = 0
    /// The time at which the unanswered PING was sent, or 0.
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

    /// Returns the action that is due now. A returned `ping` counts as sent.
    mutating func check(nowNs: Int64) -> Need {
        guard nextDeadlineNs <= nowNs else { return .nothing }
        if pingedNs != 0 { return .dead(pingedNs: pingedNs) }
        pingedNs = max(1, nowNs)
        return .ping
    }

    /// Whether a PING is unanswered and nothing has arrived since, so that the connection may be dead.
    var isInQuestion: Bool { pingedNs != 0 }

    var nextDeadlineNs: Int64 {
        if pingedNs != 0 { return pingedNs + limits.deadNs }
        if waitingSinceNs != 0 { return max(receivedNs, waitingSinceNs) + limits.silentNs }
        return receivedNs + limits.idleNs
    }
}

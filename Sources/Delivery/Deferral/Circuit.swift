import PushRecords

/// An open circuit breaker of a credential, a topic or a host.
///
/// A fault opens the circuit. While the circuit is open, one notification at a time may be sent as the probe, at
/// growing intervals. An answer that disproves the fault closes the circuit.
struct Circuit {
    static let firstDelayNs: Int64 = 1_000_000_000
    static let longestDelayNs: Int64 = 60_000_000_000

    /// The probe that is waiting or in flight. Without one, the next probe is sent at `nextProbeNs`.
    var probe: NotificationID?
    private var delayNs = Circuit.firstDelayNs
    private var nextProbeNs: Int64
    /// When the latest send that met the fault was handed to the transport (monotonic).
    private var faultHandedNs: Int64

    /// - Parameter handedNs: When the send that met the fault was handed to the transport.
    init(handedNs: Int64, nowNs: Int64) {
        faultHandedNs = handedNs
        nextProbeNs = nowNs + delayNs
    }

    /// Records that another send met the same fault.
    mutating func fault(handedNs: Int64) { faultHandedNs = max(faultHandedNs, handedNs) }

    /// Makes this notification the probe if a probe may be sent now. Returns whether the notification is the probe.
    mutating func admits(_ id: NotificationID, nowNs: Int64) -> Bool {
        guard probe == nil, nowNs >= nextProbeNs else { return false }
        probe = id
        return true
    }

    /// Returns whether a successful answer closes the circuit. It does if the answered send was handed out after the
    /// latest send that met the fault, or less than a millisecond before. A single refusal among many successes
    /// therefore defers only the notifications that are waiting at that moment.
    func isDisproved(byTryHandedNs handedNs: Int64) -> Bool { handedNs > faultHandedNs - 1_000_000 }

    /// Ends a probe that met the same fault, and doubles the delay before the next probe.
    mutating func probeFailed(nowNs: Int64) {
        delayNs = min(delayNs * 2, Self.longestDelayNs)
        probePostponed(nowNs: nowNs)
    }

    /// Ends a probe whose answer says nothing about the fault. The next probe is sent after the same delay.
    mutating func probePostponed(nowNs: Int64) {
        probe = nil
        nextProbeNs = nowNs + delayNs
    }
}

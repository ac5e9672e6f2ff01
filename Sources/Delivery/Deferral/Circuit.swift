import PushRecords

/// A circuit breaker that is open, as a value machine: it stops what would only be refused.
///
/// A fault opens it. While it is open one notification at a time may try (the probe), at growing intervals; its answer
/// closes the circuit, unless it is the fault again.
struct Circuit {
    static let firstDelayNs: Int64 = 1_000_000_000
    static let longestDelayNs: Int64 = 60_000_000_000

    private(set) var probe: NotificationID?
    private var delayNs = Circuit.firstDelayNs
    private var nextProbeNs: Int64
    /// When the latest try that met the fault was handed out.
    private var faultHandedNs: Int64

    /// - Parameter handedNs: when the try that met the fault was handed out.
    init(handedNs: Int64, nowNs: Int64) {
        faultHandedNs = handedNs
        nextProbeNs = nowNs + delayNs
    }

    /// Another try met the fault.
    mutating func fault(handedNs: Int64) { faultHandedNs = max(faultHandedNs, handedNs) }

    /// Whether this notification may try; then it is the probe.
    mutating func admits(_ id: NotificationID, nowNs: Int64) -> Bool {
        guard probe == nil, nowNs >= nextProbeNs else { return false }
        probe = id
        return true
    }

    /// Whether a good answer that came just now proves the fault wrong: its try was handed out no earlier than the one
    /// that met the fault (to the millisecond). One notification that Apple refuses, among many that it takes, then
    /// costs those that waited just then a stay in the shortest tier, and the others nothing.
    func isDisproved(byTryHandedNs handedNs: Int64) -> Bool { handedNs > faultHandedNs - 1_000_000 }

    /// The probe met the fault: the next one comes later.
    mutating func probeFailed(nowNs: Int64) {
        delayNs = min(delayNs * 2, Self.longestDelayNs)
        probePostponed(nowNs: nowNs)
    }

    /// The answer to the probe tells nothing of what it tried: the next one comes after the same delay.
    mutating func probePostponed(nowNs: Int64) {
        probe = nil
        nextProbeNs = nowNs + delayNs
    }

    /// The probe will not be answered: another one may try at once.
    mutating func probeEnded() { probe = nil }
}

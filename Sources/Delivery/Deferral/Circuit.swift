import PushRecords

/// A circuit breaker, as a value machine: it stops what would only be refused.
///
/// A fault opens it. While it is open one notification at a time may try (the probe), at growing intervals; its answer
/// closes the circuit, unless it is the fault again.
struct Circuit {
    static let firstDelayNs: Int64 = 1_000_000_000
    static let longestDelayNs: Int64 = 60_000_000_000

    private(set) var isOpen = false
    private(set) var probe: NotificationID?
    private var delayNs = Circuit.firstDelayNs
    private var nextProbeNs: Int64 = 0
    /// When it closed last, or what it protects was replaced: tries handed out before say nothing.
    private(set) var closedNs = Int64.min
    /// When the latest try that met the fault was handed out.
    private var faultHandedNs = Int64.min

    /// - Parameter handedNs: when the try that met the fault was handed out.
    /// - Returns: whether it opened.
    mutating func fault(handedNs: Int64, nowNs: Int64) -> Bool {
        if isOpen { faultHandedNs = max(faultHandedNs, handedNs) }
        guard !isOpen, handedNs >= closedNs else { return false }
        isOpen = true
        faultHandedNs = handedNs
        delayNs = Self.firstDelayNs
        nextProbeNs = nowNs + delayNs
        return true
    }

    /// Whether this notification may try; then it is the probe.
    mutating func admits(_ id: NotificationID, nowNs: Int64) -> Bool {
        guard isOpen else { return true }
        guard probe == nil, nowNs >= nextProbeNs else { return false }
        probe = id
        return true
    }

    /// Whether a good answer that came just now proves the fault wrong: its try was handed out no earlier than the one
    /// that met the fault (to the millisecond). One notification that Apple refuses, among many that it takes, then
    /// costs those that waited just then a stay in the shortest tier, and the others nothing.
    func isDisproved(byTryHandedNs handedNs: Int64) -> Bool {
        isOpen && handedNs > faultHandedNs - 1_000_000
    }

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

    mutating func close(nowNs: Int64) {
        isOpen = false
        probe = nil
        closedNs = nowNs
    }
}

import PushRecords

/// Keeps what would only be refused from being sent while a credential is at fault: a value machine.
///
/// A fault opens it. While it is open one notification at a time may try (the probe), at growing intervals; its answer
/// closes it, unless that is the fault again.
struct Circuit {
    static let firstDelayNs: Int64 = 1_000_000_000
    static let longestDelayNs: Int64 = 60_000_000_000

    enum Effect: Equatable {
        case opened
        /// It is open, or the try began before it was closed last.
        case none
        /// The try carried a credential that has been replaced since.
        case outdated
    }

    private(set) var isOpen = false
    private(set) var openedNs: Int64 = 0
    /// Apple's word for it.
    private(set) var reason = ReasonCode.none
    private(set) var probe: NotificationID?
    private var delayNs = Circuit.firstDelayNs
    private var nextProbeNs: Int64 = 0
    private var closedNs = Int64.min
    private(set) var replacedNs = Int64.min
    /// When the latest try that met the fault was handed out.
    private var faultHandedNs = Int64.min

    /// - Parameter handedNs: when the try that was answered so was handed out.
    mutating func fault(_ reason: ReasonCode, handedNs: Int64, nowNs: Int64) -> Effect {
        if handedNs < replacedNs { return .outdated }
        if isOpen { faultHandedNs = max(faultHandedNs, handedNs) }
        guard !isOpen, handedNs >= closedNs else { return .none }
        isOpen = true
        openedNs = nowNs
        self.reason = reason
        faultHandedNs = handedNs
        delayNs = Self.firstDelayNs
        nextProbeNs = nowNs + delayNs
        return .opened
    }

    /// Whether this notification may try; then it is the probe.
    mutating func admits(_ id: NotificationID, nowNs: Int64) -> Bool {
        guard isOpen else { return true }
        guard probe == nil, nowNs >= nextProbeNs else { return false }
        probe = id
        return true
    }

    /// Whether another answer than the fault, come just now, says that the credential is good: its try was handed out
    /// no earlier than the one that met the fault (to the millisecond). So one notification that Apple answers so,
    /// among many that it takes, costs those that waited just then a stay in the shortest tier, and the others nothing.
    func isDisproved(byTryHandedNs handedNs: Int64) -> Bool {
        isOpen && handedNs > faultHandedNs - 1_000_000
    }

    /// The probe was answered by the fault.
    mutating func probeFailed(nowNs: Int64) {
        delayNs = min(delayNs * 2, Self.longestDelayNs)
        probePostponed(nowNs: nowNs)
    }

    /// The probe was answered by somebody who may not have looked at what it tried: the next one waits as long as it
    /// did.
    mutating func probePostponed(nowNs: Int64) {
        probe = nil
        nextProbeNs = nowNs + delayNs
    }

    /// The probe was not answered, and will not be.
    mutating func probeEnded() { probe = nil }

    mutating func close(nowNs: Int64) {
        isOpen = false
        probe = nil
        closedNs = nowNs
    }

    /// The credential is another one from now on.
    mutating func replaced(nowNs: Int64) {
        close(nowNs: nowNs)
        replacedNs = nowNs
    }
}

import PushRecords

/// Keeps an app whose host is out of reach from taking the others' room: a value machine, of one app.
///
/// One that has had no room for `cutOffNs` while no connection can be made, or none of use, is cut off. A connection
/// that comes meanwhile ends that only by an answer: one notification at a time may try it (the trial). It ends as
/// well once the transport says that the host is within reach, or when there are no other apps to protect any more.
struct HostCircuit {
    /// An app without a connection, and none to be had, is cut off after this.
    static let cutOffNs: Int64 = 5_000_000_000

    /// As the transport told last; true until it did.
    private var isReachable = true
    /// Its transport takes something.
    private var isConnected = false
    /// Since when there is a connection, or was last.
    private var connectedNs: Int64 = 0
    /// Since when it has no room while no connection can be made, or none of use; `nil`: it has some, or may.
    private var unreachableNs: Int64?
    /// Open while it is cut off.
    private var circuit = Circuit()

    // MARK: What the transport says

    mutating func setReachable(_ isReachable: Bool) { self.isReachable = isReachable }

    mutating func setConnected(_ isConnected: Bool, nowNs: Int64) {
        self.isConnected = isConnected
        if isConnected { connectedNs = nowNs }
    }

    /// Its transport is gone with the app, and nothing waits for it.
    mutating func remove() {
        isReachable = true
        isConnected = false
    }

    /// To be called when something of the above changed.
    ///
    /// - Parameter ofMany: there are other apps to protect.
    /// - Returns: whether that ended its being cut off.
    mutating func refresh(ofMany: Bool, nowNs: Int64) -> Bool {
        if isReachable {
            unreachableNs = nil
        } else if unreachableNs == nil, !isConnected {
            unreachableNs = nowNs
        }
        guard isCutOff, isReachable || !ofMany else { return false }
        circuit.close(nowNs: nowNs)
        return true
    }

    // MARK: Cut off

    /// What is to be sent is held, but for the trial.
    var isCutOff: Bool { circuit.isOpen }

    /// When it is to be cut off, as things stand; `nil`: never, or it is.
    var cutOffDueNs: Int64? {
        guard !isCutOff, let unreachableNs else { return nil }
        // What becomes of a connection says more than what became of those before it.
        return (isConnected ? max(unreachableNs, connectedNs) : unreachableNs) + Self.cutOffNs
    }

    /// Cuts it off, where that is due.
    ///
    /// - Parameter isBusy: something is at its transport. A connection that stays, and nothing that waits for an
    ///   answer, is all that can be wanted of a host.
    /// - Returns: whether it is cut off from now on.
    mutating func cutOff(isBusy: Bool, nowNs: Int64) -> Bool {
        guard let cutOffDueNs, nowNs >= cutOffDueNs else { return false }
        if isConnected, !isBusy {
            unreachableNs = nil
            return false
        }
        return circuit.fault(.none, handedNs: nowNs, nowNs: nowNs) == .opened
    }

    // MARK: The trial

    /// The notification that tries a connection while the app is cut off.
    var trial: NotificationID? { circuit.probe }

    /// Nothing goes, whatever it is: there is no connection to try.
    var isShut: Bool { isCutOff && !isConnected }

    /// Whether this notification may go; while the app is cut off it is the trial then.
    mutating func admits(_ id: NotificationID, nowNs: Int64) -> Bool { circuit.admits(id, nowNs: nowNs) }

    /// The trial came back without an answer.
    mutating func trialFailed(nowNs: Int64) { circuit.probeFailed(nowNs: nowNs) }

    /// The trial went another way, or is gone: another one may try.
    mutating func trialEnded() { circuit.probeEnded() }
}

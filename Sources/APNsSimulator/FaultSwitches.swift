import EventLoop

/// Latency and faults of a running simulator, for any thread.
package final class FaultSwitches: Sendable {
    private let loop: Loop
    private let door: DoorHandle
    private let current: Guarded<(latency: Latency, rules: [FaultRule], streams: UInt32)>

    init(loop: Loop, door: DoorHandle, options: SimulatorOptions) {
        self.loop = loop
        self.door = door
        current = Guarded((options.latency, options.faults, options.streams))
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS; a change is told to every connection at once.
    package var streams: UInt32 {
        get { current.withLock { $0.streams } }
        set {
            current.withLock { $0.streams = newValue }
            _ = door.with(loop) { $0.set(streams: newValue) }
        }
    }

    package var latency: Latency {
        get { current.withLock { $0.latency } }
        set {
            current.withLock { $0.latency = newValue }
            _ = door.with(loop) { $0.set(latency: newValue, rules: nil) }
        }
    }

    /// Setting them starts every rule's count and clock anew.
    package var rules: [FaultRule] {
        get { current.withLock { $0.rules } }
        set {
            current.withLock { $0.rules = newValue }
            _ = door.with(loop) { $0.set(latency: nil, rules: newValue) }
        }
    }

    /// Does something to every open connection now; a fault of a single request does nothing. Returns how many
    /// connections there were.
    @discardableResult
    package func befallAll(_ fault: Fault) -> Int {
        door.with(loop) { $0.befallAll(fault) } ?? 0
    }
}

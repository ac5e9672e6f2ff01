import EventLoop

/// Latency and faults of a running simulator, for any thread.
package final class FaultSwitches: Sendable {
    private let loop: Loop
    private let door: DoorHandle
    private let binaryDoors: BinaryDoorsHandle
    private let current: Guarded<(latency: Latency, rules: [FaultRule], streams: UInt32, gateway: [GatewayFault])>

    init(loop: Loop, door: DoorHandle, binaryDoors: BinaryDoorsHandle, options: SimulatorOptions) {
        self.loop = loop
        self.door = door
        self.binaryDoors = binaryDoors
        current = Guarded((options.latency, options.faults, options.streams, options.gatewayFaults))
    }

    /// What befalls the connections of the binary gateway; those that are open go on as they began, but for
    /// those that are not read, which end.
    package var gateway: [GatewayFault] {
        get { current.withLock { $0.gateway } }
        set {
            current.withLock { $0.gateway = newValue }
            _ = door.with(loop) { [binaryDoors] _ in binaryDoors.doors.set(faults: newValue) }
        }
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

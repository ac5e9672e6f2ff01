import EventLoop
import Glibc
import Network
import TLS

/// A connection of the simulator. Loop's thread.
protocol Peer: SecureChannelDelegate {
    /// Set right after both are made.
    var channel: SecureChannel? { get set }
    /// Closes the connection in order, because the simulator stops.
    func leave()
}

/// Accepts connections on one port. Loop's thread.
final class Door<Connection: Peer> {
    /// Makes a connection of that number; what it is given is to be called once its channel is gone.
    typealias Make = (_ number: Int, _ onClosed: @escaping () -> Void) -> Connection

    let port: UInt16
    private(set) var connections: [Int: Connection] = [:]
    private let books: Books
    private var listener: Listener?
    private var nextNumber = 0

    /// Listens at once.
    ///
    /// - Throws: one line that names the port.
    init(
        _ options: SimulatorOptions, port: UInt16, loop: Loop, context: ServerContext, books: Books,
        make: @escaping Make
    ) throws(SimulatorError) {
        self.books = books
        var accept: ((Listener.Accepted) -> Void)?
        do {
            let listener = try Listener(host: options.host, port: port, loop: loop) { accept?($0) }
            self.listener = listener
            self.port = listener.port
        } catch {
            throw SimulatorError("cannot listen on \(options.host):\(port): \(error)")
        }
        var channelOptions = ChannelOptions()
        channelOptions.outputLimit = 1 << 20
        accept = { [unowned self] accepted in
            // Dropping it closes it.
            guard connections.count < options.connectionLimit else { return }
            let number = nextNumber
            nextNumber += 1
            let connection = make(number) { [weak self] in self?.forget(number) }
            connections[number] = connection
            books.write { state in
                state.totals.connections += 1
                state.totals.openConnections += 1
            }
            connection.channel = SecureChannel(
                accepted: accepted, context: context, loop: loop, options: channelOptions, delegate: connection)
        }
    }

    private func forget(_ number: Int) {
        guard connections.removeValue(forKey: number) != nil else { return }
        books.write { $0.totals.openConnections -= 1 }
    }

    /// Stops listening and ends every connection.
    func close() {
        listener?.close()
        listener = nil
        for connection in Array(connections.values) { connection.leave() }
    }
}

/// All that a simulator serves: notifications, channel management, the binary gateway and the feedback service. Looks
/// after answers that are late and faults that come by the clock. Loop's thread.
final class Doors {
    let notifications: Door<ServerConnection>
    let management: Door<ServerConnection>?
    let gateway: Door<GatewayConnection>?
    let feedback: Door<FeedbackPeer>?
    let service: Service
    private let gatewayService: GatewayService
    private let loop: Loop
    private var alarm: Alarm?

    /// Listens at once.
    ///
    /// - Parameters:
    ///   - context: of HTTP/2.
    ///   - binaryContext: of the services that agree on no protocol by ALPN.
    /// - Throws: one line that names the port.
    init(
        _ options: SimulatorOptions, loop: Loop, keys: [ProviderKey], context: ServerContext,
        binaryContext: ServerContext, books: Books, channels: ChannelBook, feedback list: FeedbackList
    ) throws(SimulatorError) {
        func door(_ service: Service, port: UInt16) throws(SimulatorError) -> Door<ServerConnection> {
            try Door(options, port: port, loop: loop, context: context, books: books) {
                ServerConnection(number: $0, service: service, loop: loop, onClosed: $1)
            }
        }
        self.loop = loop
        let nowNs = loop.now.monotonicNs
        service = Service(options: options, keys: keys, books: books, channels: channels, nowNs: nowNs)
        notifications = try door(service, port: options.port)
        if let port = options.managementPort {
            // Faults and latency apply to notifications only.
            var calm = options
            calm.faults = []
            calm.latency = .none
            let manager = Service(
                options: calm, keys: keys, books: books, channels: channels, nowNs: nowNs, role: .management)
            management = try door(manager, port: port)
        } else {
            management = nil
        }
        let gatewayService = GatewayService(
            books: books, manner: GatewayManner(options.gatewayFaults), payloadLimit: options.gatewayPayloadLimit)
        self.gatewayService = gatewayService
        gateway =
            if let port = options.gatewayPort {
                try Door(options, port: port, loop: loop, context: binaryContext, books: books) {
                    GatewayConnection(service: gatewayService, loop: loop, onClosed: $1)
                }
            } else { nil }
        feedback =
            if let port = options.feedbackPort {
                try Door(options, port: port, loop: loop, context: binaryContext, books: books) {
                    FeedbackPeer(list: list, onClosed: $1)
                }
            } else { nil }
        alarm = Alarm(loop: loop) { [unowned self] in tick() }
        loop.onTurnEnd { [weak self] in self?.setAlarm() }
    }

    private func tick() {
        let nowNs = loop.now.monotonicNs
        var touched: [Int: ServerConnection] = [:]
        while let due = service.due.popDue(nowNs: nowNs) {
            guard let connection = notifications.connections[due.connection] else { continue }
            connection.answer(due)
            touched[due.connection] = connection
        }
        for connection in touched.values { connection.flush() }
        for fault in service.schedule.fire(nowNs: nowNs) { befallAll(fault) }
    }

    private func setAlarm() {
        let next = min(service.due.nextDueNs, service.schedule.nextDueNs)
        guard next != .max else { return }
        alarm?.set(atNs: next)
    }

    /// Does something to every connection of notifications now; returns how many there are.
    @discardableResult
    func befallAll(_ fault: Fault) -> Int {
        let all = Array(notifications.connections.values)
        for connection in all { connection.befall(fault) }
        return all.count
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS of connections that showed a valid provider token, now and from now on.
    func set(streams: UInt32) {
        service.streams = streams
        for connection in notifications.connections.values { connection.announceStreams() }
    }

    /// What befalls the gateway's connections from the next one on.
    func set(gatewayFaults: [GatewayFault]) {
        gatewayService.manner = GatewayManner(gatewayFaults)
        for connection in gateway.map({ Array($0.connections.values) }) ?? [] { connection.faultsChanged() }
    }

    /// Stops listening and ends every connection.
    func close() {
        notifications.close()
        management?.close()
        gateway?.close()
        feedback?.close()
    }

    var isEmpty: Bool {
        notifications.connections.isEmpty && management?.connections.isEmpty ?? true
            && gateway?.connections.isEmpty ?? true && feedback?.connections.isEmpty ?? true
    }
}

/// Latency and faults of a running simulator, for any thread.
///
/// It holds the loop's doors, which are only touched on the loop's thread: that is what `@unchecked Sendable` stands
/// for.
package final class FaultSwitches: @unchecked Sendable {
    private let loop: Loop
    private var doors: Doors?
    private let current: Guarded<Settings>

    private struct Settings: Sendable {
        var latency: Latency
        var rules: [FaultRule]
        var streams: UInt32
        var gateway: [GatewayFault]
    }

    init(_ doors: Doors, loop: Loop, options: SimulatorOptions) {
        self.loop = loop
        self.doors = doors
        current = Guarded(
            Settings(
                latency: options.latency, rules: options.faults, streams: options.streams,
                gateway: options.gatewayFaults))
    }

    /// Runs on the loop's thread and waits for it.
    @discardableResult
    private func with<R: Sendable>(_ body: @escaping @Sendable (Doors) -> R) -> R? {
        let handoff = Handoff<R?>()
        loop.perform { handoff.give(self.doors.map(body)) }
        return handoff.wait()
    }

    private func change(_ edit: (inout Settings) -> Void, _ apply: @escaping @Sendable (Doors) -> Void) {
        current.withLock { edit(&$0) }
        with(apply)
    }

    /// The faults of new connections of the binary gateway. Open connections keep theirs, except that connections
    /// that read nothing end.
    package var gateway: [GatewayFault] {
        get { current.withLock { $0.gateway } }
        set { change({ $0.gateway = newValue }) { $0.set(gatewayFaults: newValue) } }
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS. Every connection is sent a change at once.
    package var streams: UInt32 {
        get { current.withLock { $0.streams } }
        set { change({ $0.streams = newValue }) { $0.set(streams: newValue) } }
    }

    package var latency: Latency {
        get { current.withLock { $0.latency } }
        set { change({ $0.latency = newValue }) { $0.service.latency = newValue } }
    }

    /// Setting them starts every rule's count and clock anew.
    package var rules: [FaultRule] {
        get { current.withLock { $0.rules } }
        set {
            change({ $0.rules = newValue }) { [loop] doors in
                doors.service.schedule = FaultSchedule(rules: newValue, nowNs: loop.now.monotonicNs)
            }
        }
    }

    /// Does something to every open connection now; a fault of a single request does nothing. Returns how many
    /// connections there were.
    @discardableResult
    package func befallAll(_ fault: Fault) -> Int { with { $0.befallAll(fault) } ?? 0 }

    /// Ends all connections, then the loop; at most a second for what is still to be sent.
    func stop() {
        loop.perform { [self] in
            doors?.close()
            stopWhenEmpty(triesLeft: 100)
        }
    }

    private func stopWhenEmpty(triesLeft: Int) {
        if doors?.isEmpty == false, triesLeft > 0 {
            loop.schedule(afterNs: 10_000_000) { self.stopWhenEmpty(triesLeft: triesLeft - 1) }
            return
        }
        doors = nil
        loop.stop()
    }
}

/// A value that one thread waits for and another one gives, once. The semaphore orders the two accesses, which is
/// what `@unchecked Sendable` stands for.
final class Handoff<Value>: @unchecked Sendable {
    private let given = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private var value: Value?

    init() { sem_init(given, 0, 0) }

    deinit {
        sem_destroy(given)
        given.deallocate()
    }

    func give(_ value: sending Value) {
        self.value = value
        sem_post(given)
    }

    /// Called once.
    func wait() -> Value {
        while sem_wait(given) != 0 {}
        guard let value = value.take() else { preconditionFailure("a handoff is waited for once") }
        return value
    }
}

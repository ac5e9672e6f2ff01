import EventLoop
import Glibc
import Network
import TLS

/// A connection of the simulator. Loop's thread.
protocol Peer: SecureChannelDelegate {
    /// Takes its channel, right after both were made.
    func adopt(_ channel: SecureChannel)
    /// The simulator stops: ends in order.
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
            connection.adopt(
                SecureChannel(
                    accepted: accepted, context: context, loop: loop, options: channelOptions, delegate: connection))
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
        self.loop = loop
        let service = Service(
            options: options, keys: keys, books: books, channels: channels, nowNs: loop.now.monotonicNs)
        self.service = service
        notifications = try Door(options, port: options.port, loop: loop, context: context, books: books) {
            ServerConnection(number: $0, service: service, loop: loop, onClosed: $1)
        }
        management =
            if let port = options.managementPort {
                try Self.management(
                    options, port: port, loop: loop, keys: keys, context: context, books: books, channels: channels)
            } else { nil }
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

    private static func management(
        _ options: SimulatorOptions, port: UInt16, loop: Loop, keys: [ProviderKey], context: ServerContext,
        books: Books, channels: ChannelBook
    ) throws(SimulatorError) -> Door<ServerConnection> {
        // Faults and latency are of notifications.
        var options = options
        options.faults = []
        options.latency = .none
        let service = Service(
            options: options, keys: keys, books: books, channels: channels, nowNs: loop.now.monotonicNs,
            role: .management)
        return try Door(options, port: port, loop: loop, context: context, books: books) {
            ServerConnection(number: $0, service: service, loop: loop, onClosed: $1)
        }
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
    private let current: Guarded<(latency: Latency, rules: [FaultRule], streams: UInt32, gateway: [GatewayFault])>

    init(_ doors: Doors, loop: Loop, options: SimulatorOptions) {
        self.loop = loop
        self.doors = doors
        current = Guarded((options.latency, options.faults, options.streams, options.gatewayFaults))
    }

    /// Runs on the loop's thread; waits for it.
    private func with<R: Sendable>(_ body: @escaping @Sendable (Doors) -> R) -> R? {
        let handoff = Handoff<R?>()
        loop.perform { handoff.give(self.doors.map(body)) }
        return handoff.wait()
    }

    /// What befalls the connections of the binary gateway; those that are open go on as they began, but for
    /// those that are not read, which end.
    package var gateway: [GatewayFault] {
        get { current.withLock { $0.gateway } }
        set {
            current.withLock { $0.gateway = newValue }
            _ = with { $0.set(gatewayFaults: newValue) }
        }
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS; a change is told to every connection at once.
    package var streams: UInt32 {
        get { current.withLock { $0.streams } }
        set {
            current.withLock { $0.streams = newValue }
            _ = with { $0.set(streams: newValue) }
        }
    }

    package var latency: Latency {
        get { current.withLock { $0.latency } }
        set {
            current.withLock { $0.latency = newValue }
            _ = with { $0.service.latency = newValue }
        }
    }

    /// Setting them starts every rule's count and clock anew.
    package var rules: [FaultRule] {
        get { current.withLock { $0.rules } }
        set {
            current.withLock { $0.rules = newValue }
            _ = with { [loop] in
                $0.service.schedule = FaultSchedule(rules: newValue, nowNs: loop.now.monotonicNs)
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

/// A value that one thread waits for and another gives, once. It is touched under the mutex only: that is what
/// `@unchecked Sendable` stands for.
final class Handoff<Value>: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value?

    init() {
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(condition, nil)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    func give(_ value: sending Value) {
        pthread_mutex_lock(mutex)
        self.value = value
        pthread_cond_signal(condition)
        pthread_mutex_unlock(mutex)
    }

    func wait() -> Value {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let value { return value }
            pthread_cond_wait(condition, mutex)
        }
    }
}

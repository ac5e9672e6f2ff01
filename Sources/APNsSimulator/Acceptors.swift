import EventLoop
import Network
import TLS

/// A connection that the simulator accepted. Confined to the loop's thread.
protocol AcceptedConnection: ByteChannelDelegate {
    /// The connection's channel. Set it immediately after the channel is created.
    var channel: SecureChannel? { get set }
    /// The closure that the connection calls after its channel has closed.
    var onClosed: (() -> Void)? { get set }
    /// Closes the connection when the simulator stops. An HTTP/2 connection first sends GOAWAY. A gateway connection
    /// first sends status 10 if it has accepted a notification.
    func close()
}

extension AcceptedConnection {
    func channelClosed(_ end: ChannelEnd) {
        channel = nil
        onClosed?()
    }
}

/// Accepts connections on one port. Confined to the loop's thread.
final class Acceptor<Connection: AcceptedConnection> {
    /// The maximum number of open connections on a port. The simulator drops additional connections.
    private static var limit: Int { 1024 }
    let port: UInt16
    private(set) var connections: [Int: Connection] = [:]
    private let books: Books
    private var listener: Listener?
    private var nextNumber = 0

    /// Starts to listen on the port.
    ///
    /// - Throws: A one-line error that names the port.
    init(
        _ options: SimulatorOptions, port: UInt16, loop: Loop, context: ServerContext, books: Books,
        make: @escaping (_ number: Int) -> Connection
    ) throws(SimulatorError) {
        self.books = books
        var accept: ((TCPConnection) -> Void)?
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
            guard connections.count < Self.limit else { return }
            let number = nextNumber
            nextNumber += 1
            let connection = make(number)
            connection.onClosed = { [weak self] in self?.forget(number) }
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

    /// Stops listening on the port and closes its connections.
    func close() {
        listener?.close()
        listener = nil
        for connection in Array(connections.values) { connection.close() }
    }
}

/// The simulator's listeners for notifications, channel management, the binary gateway and the feedback service. This
/// class also sends delayed answers and injects timed faults. Confined to the loop's thread.
final class Acceptors {
    let notifications: Acceptor<ServerConnection>
    let management: Acceptor<ServerConnection>?
    let gateway: Acceptor<GatewayConnection>?
    let feedback: Acceptor<FeedbackConnection>?
    let service: Service
    private let gatewayService: GatewayService
    private let loop: Loop
    private var alarm: Alarm?

    /// Starts to listen on all ports.
    ///
    /// - Parameters:
    ///   - context: The TLS context of the HTTP/2 ports.
    ///   - binaryContext: The TLS context of the gateway and the feedback service, which use no ALPN.
    /// - Throws: A one-line error that names the port.
    init(
        _ options: SimulatorOptions, loop: Loop, keys: [ProviderKey], context: ServerContext,
        binaryContext: ServerContext, books: Books, channels: ChannelBook, feedback list: FeedbackList
    ) throws(SimulatorError) {
        func acceptor<Connection>(
            _ port: UInt16?, _ context: ServerContext, make: @escaping (_ number: Int) -> Connection
        ) throws(SimulatorError) -> Acceptor<Connection>? {
            guard let port else { return nil }
            return try Acceptor(options, port: port, loop: loop, context: context, books: books, make: make)
        }
        self.loop = loop
        let service = Service(
            options: options, keys: keys, books: books, channels: channels, nowNs: loop.now.monotonicNs)
        self.service = service
        let gatewayService = GatewayService(
            books: books, faults: options.gatewayFaults, payloadLimit: options.gatewayPayloadLimit)
        self.gatewayService = gatewayService
        notifications = try Acceptor(options, port: options.port, loop: loop, context: context, books: books) {
            ServerConnection(number: $0, service: service, loop: loop)
        }
        management = try acceptor(options.managementPort, context) {
            ServerConnection(number: $0, service: service, loop: loop, managesChannels: true)
        }
        gateway = try acceptor(options.gatewayPort, binaryContext) { _ in
            GatewayConnection(service: gatewayService, loop: loop)
        }
        feedback = try acceptor(options.feedbackPort, binaryContext) { _ in FeedbackConnection(list: list) }
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
        for fault in service.schedule.fire(nowNs: nowNs) { inject(fault) }
    }

    private func setAlarm() {
        let next = min(service.due.nextDueNs, service.schedule.nextDueNs)
        guard next != .max else { return }
        alarm?.set(atNs: next)
    }

    /// Injects a fault into every open notification connection and returns the number of connections. A fault of a
    /// single request has no effect.
    @discardableResult
    func inject(_ fault: Fault) -> Int {
        let all = Array(notifications.connections.values)
        for connection in all { connection.inject(fault) }
        return all.count
    }

    /// The SETTINGS_MAX_CONCURRENT_STREAMS of authenticated connections. The setter sends the new value on all of these
    /// connections immediately.
    var streams: UInt32 {
        get { service.options.streams }
        set {
            service.options.streams = newValue
            for connection in notifications.connections.values { connection.announceStreams() }
        }
    }

    /// The faults of new gateway connections. A change does not affect open connections, except that the simulator
    /// resets those with the fault `silent`.
    var gatewayFaults: GatewayFaults {
        get { gatewayService.faults }
        set {
            gatewayService.faults = newValue
            for connection in (gateway?.connections ?? [:]).values { connection.faultsChanged() }
        }
    }

    /// The fault rules. A new value resets the count and timer of every rule.
    var rules: [FaultRule] {
        get { service.schedule.rules }
        set { service.schedule = FaultSchedule(rules: newValue, nowNs: loop.now.monotonicNs) }
    }

    /// Stops listening on all ports and closes every connection.
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

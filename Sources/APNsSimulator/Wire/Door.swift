import EventLoop
import Network
import PushRecords
import TLS

/// Accepts connections on one loop, and looks after answers that are late and faults that come by the clock.
/// Loop's thread.
final class Door {
    private let loop: Loop
    private let service: Service
    private let context: ServerContext
    private let connectionLimit: Int
    private var listener: Listener?
    private var connections: [ServerConnection?] = []
    private var generations: [UInt32] = []
    private var free: [UInt32] = []
    private var openCount = 0
    private var alarm: Alarm?
    /// Connections with late answers written in this turn.
    private var touched: Set<UInt32> = []

    /// Listens at once.
    init(
        host: String, port: UInt16, loop: Loop, service: Service, context: ServerContext, connectionLimit: Int
    ) throws(SystemError) {
        self.loop = loop
        self.service = service
        self.context = context
        self.connectionLimit = connectionLimit
        listener = try Listener(host: host, port: port, loop: loop) { [unowned self] in accept($0) }
        alarm = Alarm(loop: loop) { [unowned self] in tick() }
        loop.onTurnEnd { [weak self] in self?.setAlarm() }
    }

    var port: UInt16 { listener?.port ?? 0 }

    /// Sets latency and rules, from now on.
    func set(latency: Latency?, rules: [FaultRule]?) {
        if let latency { service.latency = latency }
        if let rules { service.schedule = FaultSchedule(rules: rules, nowNs: loop.now.monotonicNs) }
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS of connections that showed a valid provider token, now and from now on.
    func set(streams: UInt32) {
        service.streams = streams
        for connection in connections { connection?.announceStreams() }
    }

    /// Does something to every connection now; returns how many there are.
    @discardableResult
    func befallAll(_ fault: Fault) -> Int {
        let all = connections.compactMap { $0 }
        for connection in all { connection.befall(fault) }
        return all.count
    }

    /// Stops listening and ends every connection.
    func close() {
        listener?.close()
        listener = nil
        for connection in connections { connection?.leave() }
    }

    var isEmpty: Bool { openCount == 0 }

    private func accept(_ accepted: Listener.Accepted) {
        // Dropping it closes it.
        guard openCount < connectionLimit else { return }
        let index: UInt32
        if let known = free.popLast() {
            index = known
        } else {
            index = UInt32(connections.count)
            connections.append(nil)
            generations.append(0)
        }
        let number = ConnectionNumber(index: index, generation: generations[Int(index)])
        let connection = ServerConnection(number: number, service: service, loop: loop) { [weak self] in
            self?.forget($0)
        }
        connections[Int(index)] = connection
        openCount += 1
        service.books.write { state in
            state.totals.connections += 1
            state.totals.openConnections += 1
        }
        connection.adopt(
            SecureChannel(accepted: accepted, context: context, loop: loop, options: Self.options, delegate: connection)
        )
    }

    private static var options: ChannelOptions {
        var options = ChannelOptions()
        options.outputLimit = 1 << 20
        return options
    }

    private func forget(_ connection: ServerConnection) {
        let index = Int(connection.number.index)
        guard generations[index] == connection.number.generation else { return }
        connections[index] = nil
        generations[index] &+= 1
        free.append(connection.number.index)
        openCount -= 1
        service.books.write { $0.totals.openConnections -= 1 }
    }

    private func tick() {
        let nowNs = loop.now.monotonicNs
        while let due = service.due.popDue(nowNs: nowNs) {
            let index = Int(due.connection.index)
            guard generations[index] == due.connection.generation, let connection = connections[index] else { continue }
            connection.answer(due)
            touched.insert(due.connection.index)
        }
        for index in touched { connections[Int(index)]?.flush() }
        touched.removeAll(keepingCapacity: true)
        for fault in service.schedule.fire(nowNs: nowNs) { befallAll(fault) }
    }

    private func setAlarm() {
        let next = min(service.due.nextDueNs, service.schedule.nextDueNs)
        guard next != .max else { return }
        alarm?.set(atNs: next)
    }
}

import Bytes
import APNs
import PushRecords

@testable import Delivery

/// One HTTP/2 connection of the simulation: the window as the transport has it, and what APNs makes of each stream.
final class SimulatedConnection {
    /// How APNs ends a stream.
    enum Ending {
        case answer
        /// The answer breaks off after its status.
        case cutAnswer
        case refused
        case resetProcessed, resetUnprocessed
        /// No answer, ever.
        case silentProcessed, silentUnprocessed
    }

    struct Stream {
        var id: NotificationID
        var ticket: UInt32
        var number: Int32
        /// Where END_STREAM ends; `nil`: the body waits for flow control.
        var end: Int64?
        var ending: Ending
        /// When APNs looks at it, and when it ends it.
        var arrivesMs: Int64
        var endsMs: Int64
        /// What APNs made of it: its status and reason; `nil`: nothing yet.
        var answer: (status: UInt16, reason: ReasonCode)?
        /// APNs said, or will say, nothing more of it.
        var isOver = false
    }

    let app: Int
    let isQuarantine: Bool
    var window: Window
    var streams: [Stream] = []
    var nextStream: Int32 = 1
    /// A suspect is on it that is to be alone there.
    var isTaken = false
    var output: Int64 = 0
    var kernel: Int64 = 0
    var isDraining = false
    /// The first of two GOAWAYs is out: the second comes then.
    var secondGoAwayMs: Int64?
    /// Streams above it are not processed, and APNs said so.
    var lastStream = Int32.max
    /// Answers nobody from now on.
    var isDeaf = false
    /// Since when it has been so, as far as its owner can know.
    var deafSinceMs: Int64?
    /// The peer opens no window for a body until then.
    var stallsUntilMs: Int64 = 0

    init(app: Int, isQuarantine: Bool, timeoutNs: Int64) {
        self.app = app
        self.isQuarantine = isQuarantine
        window = Window(timeoutNs: timeoutNs)
    }

    /// The kernel has it all.
    func isSent(_ stream: Stream) -> Bool { stream.end.map { $0 <= kernel } ?? false }
}

/// The transports of a worker, and APNs at their other ends.
extension SimulatedWorld {
    static let timeoutNs: Int64 = 400_000_000
    private static let streamsOfConnection = 12

    func turnTransport(_ worker: SimulatedWorker) {
        turnGateways(worker)
        fillConnections(worker)
        for connection in worker.connections {
            write(connection)
            serve(connection, worker)
            keepAlive(connection, worker)
            expire(connection, worker)
            disturb(connection, worker)
            if connection.window.count != connection.streams.count { breaks("a window with other entries") }
        }
        worker.connections.removeAll { $0.isDraining && $0.streams.isEmpty && $0.secondGoAwayMs == nil }
    }

    /// A request comes back that was on no connection.
    func giveBack(_ id: NotificationID, _ worker: SimulatedWorker) {
        worker.flights[id]?.isQueued = false
        tell(Completion(id: id, kind: .notProcessed), worker)
    }

    func tell(_ completion: Completion, _ worker: SimulatedWorker) {
        worker.completions.append((nowMs + (random.chance(30) ? .random(in: 1...30, using: &random) : 0), completion))
    }

    // MARK: Requests

    private func fillConnections(_ worker: SimulatedWorker) {
        let queued = worker.flights.filter { $0.value.isQueued && worker.gateways[$0.value.app] == nil }.sorted {
            $0.key.tag < $1.key.tag
        }
        guard !queued.isEmpty else { return }
        let isOneToGoAlone = queued.contains { worker.marked.contains($0.key) }
        for (id, flight) in queued {
            if worker.capacities[flight.app] == 0 {
                giveBack(id, worker)
                continue
            }
            // It takes a while until a connection is there.
            guard random.chance(90) || isCalm else { continue }
            let connection =
                flight.isSuspect
                ? quarantine(for: id, flight, isOneToGoAlone, worker) : connection(for: flight, worker)
            if open(id, on: connection, worker) { worker.flights[id]?.isQueued = false }
        }
    }

    /// The app's quarantine connection, if it takes this one now: those under which it died together go alone.
    private func quarantine(
        for id: NotificationID, _ flight: SimulatedWorker.Flight, _ isOneToGoAlone: Bool, _ worker: SimulatedWorker
    ) -> SimulatedConnection? {
        let there = worker.connections.first { $0.app == flight.app && !$0.isDraining && $0.isQuarantine }
        let connection = there ?? connect(flight, worker)
        if connection.streams.isEmpty { connection.isTaken = false }
        if worker.marked.contains(id) {
            guard connection.streams.isEmpty else { return nil }
            connection.isTaken = true
            worker.marked.remove(id)
            return connection
        }
        guard !connection.isTaken, !isOneToGoAlone, connection.streams.count < Self.streamsOfConnection else {
            return nil
        }
        return connection
    }

    private func connection(for flight: SimulatedWorker.Flight, _ worker: SimulatedWorker) -> SimulatedConnection {
        let usable = worker.connections.filter { $0.app == flight.app && !$0.isDraining && !$0.isQuarantine }
        let free = usable.filter { $0.streams.count < Self.streamsOfConnection }
        return free.randomElement(using: &random) ?? connect(flight, worker)
    }

    private func connect(_ flight: SimulatedWorker.Flight, _ worker: SimulatedWorker) -> SimulatedConnection {
        let mayTimeOut = faults.breaks || faults.silence
        let connection = SimulatedConnection(
            app: flight.app, isQuarantine: flight.isSuspect, timeoutNs: mayTimeOut ? Self.timeoutNs : .max / 4)
        worker.connections.append(connection)
        return connection
    }

    private func open(_ id: NotificationID, on connection: SimulatedConnection?, _ worker: SimulatedWorker) -> Bool {
        guard let connection else { return false }
        let ticket = connection.window.open(id, token: 1, nowNs: ns, nowMs: now.wallMs)
        if random.chance(2) {
            connection.window.withdraw(ticket)
            return false
        }
        if !isCalm, random.chance(3) {
            note("body waits")
            connection.stallsUntilMs = nowMs + .random(in: 50...2_000, using: &random)
        }
        var end: Int64?
        if random.chance(85), connection.stallsUntilMs <= nowMs {
            connection.output += .random(in: 100...300, using: &random)
            end = connection.output
        }
        connection.window.handed(ticket, stream: connection.nextStream, end: end)
        let arrivesMs = nowMs + (random.chance(20) ? .random(in: 1...60, using: &random) : 0)
        connection.streams.append(
            .init(
                id: id, ticket: ticket, number: connection.nextStream, end: end, ending: ending(of: id, worker),
                arrivesMs: arrivesMs, endsMs: arrivesMs + answerMs(of: id, worker)))
        connection.nextStream += 2
        return true
    }

    private func answerMs(of id: NotificationID, _ worker: SimulatedWorker) -> Int64 {
        if let place = worker.flights[id]?.original, books[place]?.rule == .slow {
            note("slow answer")
            return .random(in: 1_000...20_000, using: &random)
        }
        return .random(in: 1...80, using: &random) * answerSlowness
    }

    /// Answers come too late then; where none is to be late, they are not slow.
    private var answerSlowness: Int64 { faults.breaks && !isCalm ? min(slowness, 6) : 1 }

    private func ending(of id: NotificationID, _ worker: SimulatedWorker) -> SimulatedConnection.Ending {
        if let place = worker.flights[id]?.original, let book = books[place], book.rule == .refused,
            book.refusals < SimulatedRule.refusalCount
        {
            books[place]?.refusals += 1
            return .refused
        }
        if let place = worker.flights[id]?.original, books[place]?.rule == .endless {
            note("endless refusals")
            return .refused
        }
        guard !isCalm, random.chance(9) else { return .answer }
        guard faults.breaks else { return random.chance(60) ? .refused : .answer }
        return [
            .cutAnswer, .refused, .resetProcessed, .resetUnprocessed, .silentProcessed, .silentUnprocessed,
        ].randomElement(using: &random)!
    }

    /// The kernel takes what there is, or a part of it; the peer's window opens, or does not.
    private func write(_ connection: SimulatedConnection) {
        for place in connection.streams.indices where connection.streams[place].end == nil {
            guard isCalm || random.chance(40), connection.stallsUntilMs <= nowMs else { continue }
            connection.output += 100
            connection.streams[place].end = connection.output
            connection.window.bodySent(connection.streams[place].ticket, end: connection.output)
        }
        if isCalm || random.chance(80) {
            connection.kernel = connection.output
        } else {
            connection.kernel = .random(in: connection.kernel...connection.output, using: &random)
        }
        connection.window.didWrite(upTo: connection.kernel, nowNs: ns)
    }

    // MARK: Answers

    private func serve(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        guard !isDeaf(connection, worker), !connection.streams.isEmpty else { return }
        let due = connection.streams.filter {
            connection.isSent($0) && $0.number <= connection.lastStream && !$0.isOver && $0.arrivesMs <= nowMs
        }
        for stream in due.shuffled(using: &random) {
            guard let flight = worker.flights[stream.id] else { continue }
            if books[flight.original]?.rule == .poison {
                lose(connection, isSilent: false, worker)
                return
            }
            switch stream.ending {
            case .answer, .cutAnswer, .resetProcessed, .silentProcessed: process(stream.id, flight, connection)
            case .refused, .resetUnprocessed, .silentUnprocessed: break
            }
            if stream.endsMs <= nowMs { end(stream.id, connection, worker) }
        }
    }

    /// APNs makes something of a stream.
    private func process(_ id: NotificationID, _ flight: SimulatedWorker.Flight, _ connection: SimulatedConnection) {
        guard let place = connection.streams.firstIndex(where: { $0.id == id }),
            connection.streams[place].answer == nil
        else { return }
        let processed = books[flight.original]?.processed ?? 0
        process(flight)
        connection.streams[place].answer =
            books[flight.original]?.rule?.answer(processed: processed, isOther: flight.isOther) ?? (200, .none)
    }

    private func end(_ id: NotificationID, _ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        guard let place = connection.streams.firstIndex(where: { $0.id == id }) else { return }
        connection.streams[place].isOver = true
        let stream = connection.streams[place]
        switch stream.ending {
        case .answer: close(connection.window.responded(stream.ticket), connection, worker)
        case .cutAnswer:
            close(
                connection.window.ended(stream.ticket, isRefused: false, status: stream.answer?.status ?? 0),
                connection,
                worker)
        case .refused:
            close(
                connection.window.ended(stream.ticket, isRefused: true, status: 0), connection, worker, isRefused: true)
        case .resetProcessed, .resetUnprocessed:
            close(connection.window.ended(stream.ticket, isRefused: false, status: 0), connection, worker)
        case .silentProcessed, .silentUnprocessed: break
        }
    }

    /// The window closed an entry: what it says must be true.
    private func close(
        _ closed: Window.Closed?, _ connection: SimulatedConnection, _ worker: SimulatedWorker, isRefused: Bool = false
    ) {
        guard let closed else { return }
        guard let place = connection.streams.firstIndex(where: { $0.id == closed.id }) else {
            breaks("the window closed an entry that is not open")
            return
        }
        let stream = connection.streams.remove(at: place)
        var completion = Completion(
            id: closed.id, kind: closed.kind, unprocessed: isRefused ? .refusedByPeer : .neverSent,
            sentAtMs: closed.sentAtMs, connectionDied: closed.connectionDied,
            connectionWasSilent: closed.wasSilent)
        switch closed.kind {
        case .notProcessed:
            if stream.answer != nil { breaks("what was processed is said not to be") }
        case .inDoubt:
            if !faults.doubts { breaks("something is in doubt without a fault") }
            if stream.number > connection.lastStream { breaks("something above the last stream is in doubt") }
            if !connection.isSent(stream) { breaks("something is in doubt that was never sent") }
        case .answered:
            guard let answer = stream.answer else {
                breaks("something is answered that never was")
                return
            }
            completion.status = answer.status
            completion.reason = answer.reason
            completion.unregisteredAtMs = answer.status == 410 ? 1_700_000_000_000 : 0
        }
        tell(completion, worker)
    }

    // MARK: Time and faults

    private func isDeaf(_ connection: SimulatedConnection, _ worker: SimulatedWorker) -> Bool {
        connection.isDeaf || !isCalm && nowMs < worker.deafUntilMs
    }

    /// A PING is not answered either: sooner than a request's time is over.
    private func keepAlive(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        guard isDeaf(connection, worker), !connection.streams.isEmpty else {
            connection.deafSinceMs = nil
            return
        }
        let sinceMs = connection.deafSinceMs ?? nowMs
        connection.deafSinceMs = sinceMs
        // Where streams time out by themselves too, that is given a chance.
        guard nowMs - sinceMs >= 150 || !faults.breaks, !faults.breaks || random.chance(30) else { return }
        lose(connection, isSilent: true, worker)
    }

    private func expire(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        while let expiry = connection.window.expire(nowNs: ns) {
            switch expiry {
            case .entry(let number, let closed):
                if !connection.streams.contains(where: { $0.number == number && $0.id == closed.id }) {
                    breaks("another stream than the entry's is cancelled")
                }
                close(closed, connection, worker)
            case .connection:
                lose(connection, isSilent: true, worker)
                return
            }
        }
    }

    private func disturb(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        if let due = connection.secondGoAwayMs, due <= nowMs {
            connection.secondGoAwayMs = nil
            goAway(connection, worker)
        }
        guard !isCalm, !connection.streams.isEmpty else { return }
        if random.chance(3) { goAway(connection, worker) }
        if faults.silence, random.chance(1) { connection.isDeaf = true }
        if faults.breaks, random.chance(2) { lose(connection, isSilent: false, worker) }
    }

    /// Once, or first with the largest stream id there is and then again; once more with a lower one.
    private func goAway(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        note("GOAWAY")
        if connection.isDraining, connection.lastStream < .max { note("another GOAWAY") }
        var last = Int32.max
        if connection.isDraining || random.chance(60) {
            // What was processed is not disowned; what was not may be.
            let processed = connection.streams.filter { $0.answer != nil || $0.isOver }.map(\.number).max() ?? 0
            let lowest = max(processed, 0)
            let highest = max(lowest, connection.nextStream - 2)
            last = min(connection.lastStream, .random(in: lowest...highest, using: &random))
        } else {
            connection.secondGoAwayMs = nowMs + .random(in: 0...40, using: &random)
        }
        connection.isDraining = true
        connection.lastStream = last
        var closed: [Window.Closed] = []
        connection.window.goneAway(last: last, isGraceful: false, into: &closed)
        for each in closed { close(each, connection, worker, isRefused: true) }
        if connection.streams.contains(where: { $0.number > last }) { breaks("a stream above the last one is open") }
    }

    /// The connection ends; what it carried may have been processed unseen.
    private func lose(_ connection: SimulatedConnection, isSilent: Bool, _ worker: SimulatedWorker) {
        note(isSilent ? "silent connection" : "lost connection")
        loseUnseen(connection, worker)
        connection.isDraining = true
        connection.secondGoAwayMs = nil
        var closed: [Window.Closed] = []
        connection.window.lost(written: connection.kernel, isSilent: isSilent, into: &closed)
        if connection.isQuarantine, !isSilent { worker.marked.formUnion(closed.filter(\.connectionDied).map(\.id)) }
        for each in closed { close(each, connection, worker) }
    }

    /// Some of what APNs has may be processed with nobody there to hear of it.
    func loseUnseen(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        for stream in connection.streams where connection.isSent(stream) && stream.number <= connection.lastStream {
            guard let flight = worker.flights[stream.id], books[flight.original]?.rule != .poison else { continue }
            if random.chance(50) { process(stream.id, flight, connection) }
        }
    }
}

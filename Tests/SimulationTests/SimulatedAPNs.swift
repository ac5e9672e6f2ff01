import Bytes
import PushRecords

@testable import Delivery

/// A simulated connection between a worker's transport and APNs. With the binary protocol, a normal answer becomes
/// presumed acceptance, and an error discards the requests sent after it. `TransportWorldTests` test the real
/// transports.
final class SimulatedConnection {
    /// The ways in which APNs ends a stream.
    enum Ending: CaseIterable {
        case answer
        case refused
        case resetProcessed, resetUnprocessed
        /// No answer arrives.
        case silentProcessed, silentUnprocessed

        var isProcessed: Bool { self == .answer || self == .resetProcessed || self == .silentProcessed }
    }

    struct Stream {
        var id: NotificationID
        var number: Int32
        /// The time at which the whole request has been sent, including flow control.
        var sentMs: Int64
        /// The times at which APNs processes the request and ends the stream.
        var arrivesMs: Int64
        var endsMs: Int64
        var ending: Ending
        /// The answer of APNs, or `nil` until it has processed the request.
        var answer: (status: UInt16, reason: ReasonCode)?
    }

    let app: Int
    let isQuarantine: Bool
    let isBinary: Bool
    var streams: [Stream] = []
    var nextStream: Int32 = 1
    /// Whether a suspect that must be alone is on the connection.
    var isTaken = false
    var isDraining = false
    /// The time of the second of two GOAWAYs.
    var secondGoAwayMs: Int64?
    /// Whether the connection delivers no more answers.
    var isDeaf = false

    init(app: Int, isQuarantine: Bool, isBinary: Bool) {
        self.app = app
        self.isQuarantine = isQuarantine
        self.isBinary = isBinary
    }
}

/// The transports of a worker and the simulated APNs.
extension SimulatedWorld {
    private static let timeoutMs: Int64 = 400
    private static let streamsOfConnection = 12

    func turnTransport(_ worker: SimulatedWorker) {
        fillConnections(worker)
        for connection in worker.connections {
            if connection.isDeaf || !isCalm && nowMs < worker.deafUntilMs {
                // A PING is not answered either.
                if !connection.streams.isEmpty, !faults.breaks || random.chance(30) {
                    lose(connection, isSilent: true, worker)
                }
            } else {
                serve(connection, worker)
            }
            expire(connection, worker)
            disturb(connection, worker)
        }
        worker.connections.removeAll { $0.isDraining && $0.streams.isEmpty && $0.secondGoAwayMs == nil }
    }

    /// Gives back a request that was on no connection.
    func giveBack(_ id: NotificationID, _ worker: SimulatedWorker) {
        worker.flights[id]?.isQueued = false
        tell(Completion(id: id, kind: .notProcessed), worker)
    }

    func tell(_ completion: Completion, _ worker: SimulatedWorker) {
        if completion.kind == .inDoubt, !faults.doubts { breaks("a request is in doubt without a fault") }
        worker.completions.append((nowMs + (random.chance(30) ? .random(in: 1...30, using: &random) : 0), completion))
    }

    // MARK: Requests

    private func fillConnections(_ worker: SimulatedWorker) {
        let queued = worker.flights.filter(\.value.isQueued).sorted { $0.key.tag < $1.key.tag }
        guard !queued.isEmpty else { return }
        let isOneToGoAlone = queued.contains { worker.marked.contains($0.key) }
        for (id, flight) in queued {
            if worker.capacities[flight.app] == 0 {
                giveBack(id, worker)
                continue
            }
            // A connection may not be open yet.
            guard random.chance(90) || isCalm else { continue }
            let connection =
                flight.isSuspect
                ? quarantine(for: id, flight, isOneToGoAlone, worker) : connection(for: flight, worker)
            guard let connection else { continue }
            open(id, on: connection, worker)
            worker.flights[id]?.isQueued = false
        }
    }

    /// Returns the app's quarantine connection if it accepts this suspect now. Suspects that were on a lost one are
    /// sent alone.
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
        let isBinary = binaryNames.contains(worker.machine.apps.route(flight.app).name)
        let connection = SimulatedConnection(app: flight.app, isQuarantine: flight.isSuspect, isBinary: isBinary)
        worker.connections.append(connection)
        return connection
    }

    private func open(_ id: NotificationID, on connection: SimulatedConnection, _ worker: SimulatedWorker) {
        var sentMs = nowMs
        if !isCalm, random.chance(5) {
            note("request body delayed")
            sentMs += .random(in: 50...2_000, using: &random)
        }
        let arrivesMs = sentMs + (random.chance(20) ? .random(in: 1...60, using: &random) : 0)
        connection.streams.append(
            .init(
                id: id, number: connection.nextStream, sentMs: sentMs, arrivesMs: arrivesMs,
                endsMs: arrivesMs + answerMs(of: id, worker), ending: ending(of: id, worker)))
        connection.nextStream += 2
    }

    private func answerMs(of id: NotificationID, _ worker: SimulatedWorker) -> Int64 {
        if let place = worker.flights[id]?.original, books[place]?.rule == .slow {
            note("slow answer")
            return .random(in: 1_000...20_000, using: &random)
        }
        // Without faults that delay answers, all answers are fast.
        return .random(in: 1...80, using: &random) * (faults.breaks && !isCalm ? min(slowness, 6) : 1)
    }

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
        return SimulatedConnection.Ending.allCases.randomElement(using: &random) ?? .answer
    }

    // MARK: Answers

    private func serve(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        for stream in connection.streams.filter({ $0.arrivesMs <= nowMs }).shuffled(using: &random) {
            guard let flight = worker.flights[stream.id] else { continue }
            if books[flight.original]?.rule == .poison { return lose(connection, isSilent: false, worker) }
            if stream.ending.isProcessed { process(stream.id, flight, connection) }
            if stream.endsMs <= nowMs { end(stream.id, connection, worker) }
        }
    }

    /// Makes APNs process a stream's request once.
    private func process(_ id: NotificationID, _ flight: SimulatedWorker.Flight, _ connection: SimulatedConnection) {
        guard let place = connection.streams.firstIndex(where: { $0.id == id }),
            connection.streams[place].answer == nil
        else { return }
        connection.streams[place].answer = process(flight, isBinary: connection.isBinary)
    }

    private func end(_ id: NotificationID, _ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        guard let place = connection.streams.firstIndex(where: { $0.id == id }) else { return }
        let stream = connection.streams[place]
        var completion = Completion(id: id, kind: .inDoubt, sentAtMs: now.wallMs)
        switch stream.ending {
        case .answer:
            completion.kind = .answered
            if let answer = stream.answer { (completion.status, completion.reason) = answer }
            completion.unregisteredAtMs = completion.status == 410 ? 1_700_000_000_000 : 0
        case .resetProcessed, .resetUnprocessed: break
        case .silentProcessed, .silentUnprocessed: return
        case .refused: return refuse(connection, worker) { $0.number == stream.number }
        }
        connection.streams.remove(at: place)
        if connection.isBinary, completion.kind == .answered {
            completion.isPresumed = completion.status == 200
            note(completion.isPresumed ? "gateway: presumed" : "gateway: error")
            if !completion.isPresumed {
                refuse(connection, worker) { $0.number > stream.number && $0.answer == nil }
                connection.isDraining = true
            }
        }
        tell(completion, worker)
    }

    /// Returns some requests as unprocessed: refused over HTTP/2, or discarded by a gateway.
    private func refuse(
        _ connection: SimulatedConnection, _ worker: SimulatedWorker, _ isRefused: (SimulatedConnection.Stream) -> Bool
    ) {
        for stream in connection.streams where isRefused(stream) {
            var unprocessed = Completion.Unprocessed.refusedByPeer
            if connection.isBinary, let original = worker.flights[stream.id]?.original {
                note("gateway: discarded")
                unprocessed = resendsDiscarded ? .discarded : .discardedForGood
                if !resendsDiscarded { books[original]?.isDiscarded = true }
            }
            tell(Completion(id: stream.id, kind: .notProcessed, unprocessed: unprocessed), worker)
        }
        connection.streams.removeAll(where: isRefused)
    }

    // MARK: Time and faults

    /// Ends a stream that is not answered in time. Its connection may end too.
    private func expire(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        guard faults.breaks || faults.silence else { return }
        let late = connection.streams.filter { $0.sentMs + Self.timeoutMs <= nowMs }
        connection.streams.removeAll { $0.sentMs + Self.timeoutMs <= nowMs }
        for stream in late { tell(Completion(id: stream.id, kind: .inDoubt, sentAtMs: now.wallMs), worker) }
        if !late.isEmpty, random.chance(20) { lose(connection, isSilent: true, worker) }
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

    /// Sends one GOAWAY, or one with the largest stream id and then a second one, and sometimes another with a lower
    /// id. A stream that was processed is never declared unprocessed.
    private func goAway(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        note(connection.isDraining ? "another GOAWAY" : "GOAWAY")
        if !connection.isDraining, random.chance(40) {
            connection.secondGoAwayMs = nowMs + .random(in: 0...40, using: &random)
        } else {
            let lowest = connection.streams.filter { $0.answer != nil }.map(\.number).max() ?? 0
            let last = Int32.random(in: lowest...max(lowest, connection.nextStream - 2), using: &random)
            refuse(connection, worker) { $0.number > last }
        }
        connection.isDraining = true
    }

    /// Ends the connection. Its requests may have been processed without an answer.
    private func lose(_ connection: SimulatedConnection, isSilent: Bool, _ worker: SimulatedWorker) {
        note(isSilent ? "silent connection" : "lost connection")
        loseUnseen(connection, worker)
        connection.isDraining = true
        connection.secondGoAwayMs = nil
        for stream in connection.streams {
            guard stream.sentMs <= nowMs else {
                tell(Completion(id: stream.id, kind: .notProcessed), worker)
                continue
            }
            if connection.isQuarantine, !isSilent { worker.marked.insert(stream.id) }
            tell(
                Completion(
                    id: stream.id, kind: .inDoubt, sentAtMs: now.wallMs, connectionDied: true,
                    connectionWasSilent: isSilent), worker)
        }
        connection.streams = []
    }

    /// Lets APNs process some requests without an answer to the worker.
    func loseUnseen(_ connection: SimulatedConnection, _ worker: SimulatedWorker) {
        for stream in connection.streams where stream.sentMs <= nowMs && stream.ending != .refused {
            guard let flight = worker.flights[stream.id], books[flight.original]?.rule != .poison else { continue }
            if random.chance(50) { process(stream.id, flight, connection) }
        }
    }
}

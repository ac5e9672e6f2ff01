import Bytes
import PushRecords

@testable import Delivery

/// An app's transport of the binary protocol and the gateway at its other end, as a machine sees them: frames are read
/// in order, silence accepts them, and an error discards all that were sent after the refused one.
/// `TransportWorldTests` has the product's own transport.
final class SimulatedGateway {
    struct Frame {
        var id: NotificationID
        var flight: SimulatedWorker.Flight
        /// When the gateway reads it.
        var arrivesMs: Int64
        /// What the gateway made of it, or `nil` if it did not read it yet. 0 is delivered.
        var status: UInt8?
    }

    /// What is open on its connection, in order.
    var frames: [Frame] = []
    /// When the gateway's error reaches the worker. It reads nothing after that frame.
    var errorMs: Int64?
}

extension SimulatedRule {
    /// Whether a gateway can answer so.
    var isOfGateway: Bool {
        switch self {
        case .accept, .bad, .throttled, .shutdown, .failing, .nowOrNever, .poison, .foreign, .foreignShutdown: true
        case .unregistered, .credential, .topic, .idle, .refused, .endless, .slow: false
        }
    }

    /// The gateway's status for the try after `processed` others, or 0 if it delivers.
    func gatewayStatus(processed: Int) -> UInt8 {
        switch self {
        case .bad, .foreign, .foreignShutdown: 8
        case .failing: 1
        case .throttled: processed == 0 ? 1 : 0
        case .shutdown: processed < 2 ? 255 : 0
        default: 0
        }
    }
}

/// The transports of a worker that speak the binary protocol, and the gateways at their other ends.
extension SimulatedWorld {
    /// Reading and answering take less than the silence that accepts, unless the gateway is late.
    private static let readingMs: Int64 = 60
    private static let answeringMs: Int64 = 80

    func turnGateways(_ worker: SimulatedWorker) {
        for app in worker.machine.apps.indices where binaryNames.contains(worker.machine.apps.route(app).name) {
            let gateway = worker.gateways[app] ?? SimulatedGateway()
            worker.gateways[app] = gateway
            write(gateway, app, worker)
            guard isCalm || nowMs >= worker.deafUntilMs else {
                if random.chance(30) { lose(gateway, isSilent: true, worker) }
                continue
            }
            read(gateway, worker)
            if let errorMs = gateway.errorMs, errorMs <= nowMs { hear(gateway, worker) }
            presume(gateway, worker)
            guard !isCalm, !gateway.frames.isEmpty else { continue }
            if faults.silence, random.chance(1) { lose(gateway, isSilent: true, worker) }
            if faults.breaks, random.chance(2) { lose(gateway, isSilent: false, worker) }
        }
    }

    /// Suspects go one by one.
    private func write(_ gateway: SimulatedGateway, _ app: Int, _ worker: SimulatedWorker) {
        let queued = worker.flights.filter { $0.value.app == app && $0.value.isQueued }.sorted {
            $0.key.tag < $1.key.tag
        }
        for (id, flight) in queued.filter(\.value.isSuspect) + queued.filter({ !$0.value.isSuspect }) {
            if worker.capacities[app] == 0 {
                giveBack(id, worker)
                continue
            }
            let isAlone = flight.isSuspect || gateway.frames.contains(where: \.flight.isSuspect)
            guard gateway.errorMs == nil, !isAlone || gateway.frames.isEmpty else { continue }
            worker.flights[id]?.isQueued = false
            let takesMs: Int64 = random.chance(20) ? .random(in: 1...Self.readingMs, using: &random) : 0
            let arrivesMs = max(gateway.frames.last?.arrivesMs ?? 0, nowMs + takesMs)
            gateway.frames.append(.init(id: id, flight: flight, arrivesMs: arrivesMs))
        }
    }

    private func read(_ gateway: SimulatedGateway, _ worker: SimulatedWorker) {
        for place in gateway.frames.indices where gateway.frames[place].status == nil && gateway.errorMs == nil {
            let frame = gateway.frames[place]
            guard frame.arrivesMs <= nowMs else { return }
            if books[frame.flight.original]?.rule == .poison { return lose(gateway, isSilent: false, worker) }
            guard read(place, of: gateway) != 0 else { continue }
            var errorMs = frame.arrivesMs + .random(in: 0...Self.answeringMs, using: &random)
            if faults.doubts, !isCalm, random.chance(10) {
                errorMs += .random(in: gatewayWindowMs...3 * gatewayWindowMs, using: &random)
            }
            gateway.errorMs = errorMs
        }
    }

    /// The gateway takes a frame, and returns its status.
    private func read(_ place: Int, of gateway: SimulatedGateway) -> UInt8 {
        let original = gateway.frames[place].flight.original
        guard let book = books[original], let rule = book.rule else {
            breaks("\(original) was sent")
            return 0
        }
        let status = rule.gatewayStatus(processed: book.processed)
        books[original]?.processed += 1
        if status == 0 { books[original]?.delivered += 1 }
        gateway.frames[place].status = status
        return status
    }

    /// The error decides about all that is open, and ends the connection.
    private func hear(_ gateway: SimulatedGateway, _ worker: SimulatedWorker) {
        note("gateway: error")
        for frame in gateway.frames {
            var completion = Completion(id: frame.id, kind: .answered, status: 200)
            switch frame.status {
            case 0: break
            case let status?:
                completion.status = UInt16(status)
                completion.reason = status == 8 ? .badDeviceToken : .none
            case nil:
                note("gateway: discarded")
                completion = Completion(
                    id: frame.id, kind: .notProcessed,
                    unprocessed: resendsDiscarded ? .discarded : .discardedForGood)
                if !resendsDiscarded { books[frame.flight.original]?.isDiscarded = true }
            }
            tell(completion, worker)
        }
        (gateway.frames, gateway.errorMs) = ([], nil)
    }

    /// Silence accepts what was written so long ago, whether it was delivered or not.
    private func presume(_ gateway: SimulatedGateway, _ worker: SimulatedWorker) {
        while let frame = gateway.frames.first, frame.arrivesMs + gatewayWindowMs <= nowMs {
            note("gateway: presumed")
            if frame.status != 0 {
                note("gateway: late error")
                books[frame.flight.original]?.isLostLate = true
            }
            gateway.frames.removeFirst()
            tell(Completion(id: frame.id, kind: .answered, status: 200, isPresumed: true), worker)
        }
        if gateway.frames.isEmpty { gateway.errorMs = nil }
    }

    /// The connection ends without a word.
    private func lose(_ gateway: SimulatedGateway, isSilent: Bool, _ worker: SimulatedWorker) {
        note(isSilent ? "gateway: silent" : "gateway: closed without a word")
        loseUnseen(gateway)
        for frame in gateway.frames {
            if frame.arrivesMs <= nowMs {
                tell(
                    Completion(id: frame.id, kind: .inDoubt, connectionDied: true, connectionWasSilent: isSilent),
                    worker)
            } else {
                tell(Completion(id: frame.id, kind: .notProcessed), worker)
            }
        }
        (gateway.frames, gateway.errorMs) = ([], nil)
    }

    /// Some of what was written may be read although its worker does not learn of it.
    func loseUnseen(_ gateway: SimulatedGateway) {
        for place in gateway.frames.indices where gateway.frames[place].status == nil && gateway.errorMs == nil {
            let frame = gateway.frames[place]
            guard frame.arrivesMs <= nowMs, books[frame.flight.original]?.rule != .poison, random.chance(70),
                read(place, of: gateway) == 0
            else { return }
        }
    }
}

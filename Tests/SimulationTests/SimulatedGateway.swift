import APNs
import Bytes
import PushRecords

@testable import Delivery

/// An app's transport of the binary protocol, as a worker of the simulation has it: the product's values, and
/// connections.
final class SimulatedGateway {
    /// What all gateways of a world have in common.
    struct Weather {
        var limits = BinaryConfiguration.WindowLimits()
        var resendsDiscarded = true
        /// The fence's token is refused, as every other that is none.
        var answersFences = true
        var connections = 1
    }

    var admission: BinaryAdmission
    var patience: BinaryPatience
    var reachability = Reachability()
    var connections: [SimulatedGatewayConnection] = []
    /// The app was taken out of the configuration.
    var isClosing = false
    /// Its program reads nothing until then, whatever its kernel takes.
    var unreadUntilMs: Int64 = 0
    /// The machine was told that it is out of reach.
    var isOut = false
    /// The next connection is made then.
    var dialsMs: Int64 = 0

    init(most: Int, limits: BinaryConfiguration.WindowLimits) {
        admission = BinaryAdmission(most: most)
        patience = BinaryPatience(limits)
    }
}

/// One connection to a gateway: the session as the transport has it, and what the gateway makes of each frame.
final class SimulatedGatewayConnection {
    enum State: Equatable {
        case coming, delivered
        case refused(UInt8)
    }

    struct Frame {
        /// `nil`: the fence.
        var flight: SimulatedWorker.Flight?
        var start: Int64
        var end: Int64
        /// When the gateway reads it; `nil`: its kernel has not got all of it.
        var arrivesMs: Int64?
        var state = State.coming
        /// Silence accepted it.
        var isPresumed = false
        var openedNs: Int64
    }

    let isQuarantine: Bool
    var session = BinarySession()
    /// In order; the first one's identifier is 1.
    var frames: [Frame] = []
    var places: [NotificationID: Int] = [:]
    /// Those below were read by the gateway.
    var readCount = 0
    var output: Int64 = 0
    var written: Int64 = 0
    var acknowledged: Int64 = 0
    var isDraining = false
    /// It ended without a word.
    var isLost = false
    /// The gateway reads no more, and says this then.
    var answer: (dueMs: Int64, content: GatewayAnswer)?
    /// Said.
    var isHeard = false
    /// The gateway reads, or answers, later than it may.
    var isLate = false
    /// The next ones are read so much later.
    var readsLateMs: Int64 = 0
    /// Nothing passes from now on.
    var isDeaf = false
    /// So much the kernel of a gateway takes that reads nothing; `nil`: it reads.
    var unreadEnd: Int64?
    /// It answered, or was silent.
    var hasAnswered = false
    var stallsUntilMs: Int64 = 0
    var turnedMs: Int64
    let madeNs: Int64

    init(isQuarantine: Bool, nowNs: Int64) {
        self.isQuarantine = isQuarantine
        turnedMs = nowNs / 1_000_000
        madeNs = nowNs
    }

    /// Accepted by silence, and never delivered.
    var wronged: [Frame] { frames.filter { $0.isPresumed && $0.state != .delivered } }
}

extension SimulatedRule {
    /// A gateway knows no other.
    var isOfGateway: Bool {
        switch self {
        case .accept, .bad, .throttled, .shutdown, .failing, .nowOrNever, .poison, .foreign, .foreignShutdown: true
        case .unregistered, .credential, .topic, .idle, .refused, .endless, .slow: false
        }
    }

    /// What a gateway says to the try after `processed` others; 0: nothing, it delivers.
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
    private static let silenceNs: Int64 = 3_000_000_000
    /// What a gateway takes to read and to answer stays below the shortest window together, unless it is late.
    private static let readingMs: Int64 = 60
    private static let answeringMs: Int64 = 80

    func turnGateways(_ worker: SimulatedWorker) {
        guard !binaryNames.isEmpty else { return }
        makeGateways(worker)
        for app in worker.gateways.keys.sorted() {
            guard let gateway = worker.gateways[app] else { continue }
            if worker.machine.apps.isRemoved(app), !gateway.isClosing {
                gateway.isClosing = true
                for connection in gateway.connections { fence(connection) }
            }
            if faults.silence, !isCalm, random.oneIn(300), nowMs >= gateway.unreadUntilMs {
                note("gateway: reads nothing")
                gateway.unreadUntilMs = nowMs + .random(in: 500...60_000, using: &random)
            }
            dispatch(gateway, app, worker)
            for connection in gateway.connections {
                turn(connection, gateway, worker)
                if connection.session.open != connection.places.count { breaks("a session with other entries") }
            }
            for connection in gateway.connections where connection.isDraining && connection.session.isEmpty {
                loseUnseen(connection)
                closed(connection)
            }
            gateway.connections.removeAll { $0.isDraining && $0.session.isEmpty }
            sayCapacity(gateway, app, worker)
        }
    }

    private func makeGateways(_ worker: SimulatedWorker) {
        for app in worker.machine.apps.indices
        where worker.gateways[app] == nil && !worker.machine.apps.isRemoved(app)
            && binaryNames.contains(worker.machine.apps.route(app).name)
        {
            worker.gateways[app] = SimulatedGateway(most: max(1, worker.capacities[app]), limits: weather.limits)
        }
    }

    /// As `BinaryTransport` has it: its silence is no answer.
    private func mustProve(_ gateway: SimulatedGateway) -> Bool {
        gateway.reachability.isOnProbation && weather.answersFences
    }

    /// As `BinaryTransport` says it.
    private func sayCapacity(_ gateway: SimulatedGateway, _ app: Int, _ worker: SimulatedWorker) {
        if !gateway.isClosing, gateway.isOut != mustProve(gateway) {
            gateway.isOut.toggle()
            worker.capacities[app] = gateway.isOut ? 0 : gateway.admission.limit
            note(gateway.isOut ? "gateway: out of reach" : "gateway: proved")
            worker.machine.setCapacity(AppIndex(app), requests: worker.capacities[app], now: time(worker))
            worker.machine.setReachable(AppIndex(app), !gateway.isOut, now: time(worker))
        }
        let leaving = gateway.connections.reduce(0) { $1.isDraining ? $0 + $1.session.open : $0 }
        let capacity = gateway.isClosing ? 0 : leaving + gateway.admission.limit
        guard worker.capacities[app] > 0, worker.capacities[app] != capacity else { return }
        worker.capacities[app] = capacity
        worker.machine.setCapacity(AppIndex(app), requests: capacity, now: time(worker))
    }

    // MARK: Requests

    private func dispatch(_ gateway: SimulatedGateway, _ app: Int, _ worker: SimulatedWorker) {
        if mustProve(gateway), !gateway.isClosing, gateway.dialsMs <= nowMs,
            gateway.connections.allSatisfy({ $0.isQuarantine || $0.isDraining && !$0.session.mustProve })
        {
            prove(dial(gateway, false))
        }
        var queued = worker.flights.filter { $0.value.app == app && $0.value.isQueued }.sorted {
            $0.key.tag < $1.key.tag
        }
        guard !queued.isEmpty else { return }
        if worker.capacities[app] == 0 || gateway.isClosing || mustProve(gateway) {
            for (id, _) in queued { giveBack(id, worker) }
            return
        }
        if let suspect = queued.first(where: \.value.isSuspect) {
            let there = gateway.connections.first { $0.isQuarantine && !$0.isDraining }
            if let connection = there
                ?? (gateway.connections.contains(where: \.isQuarantine) ? nil : dial(gateway, true)),
                connection.session.open == 0
            {
                append(suspect.key, to: connection, worker)
            }
        }
        queued.removeAll(where: \.value.isSuspect)
        guard !queued.isEmpty else { return }
        let count = gateway.connections.count { !$0.isDraining && !$0.isQuarantine }
        if count == 0 || count < weather.connections && random.chance(20) {
            // It takes a while until a connection is there.
            guard isCalm || random.chance(80) else { return }
            dial(gateway, false)
        }
        let ready = gateway.connections.filter { !$0.isDraining && !$0.isQuarantine }
        let share = (gateway.admission.limit + ready.count - 1) / ready.count
        var next = queued[...]
        for connection in ready {
            while let (id, _) = next.first, connection.session.open < share {
                append(id, to: connection, worker)
                next.removeFirst()
            }
        }
    }

    @discardableResult
    private func dial(_ gateway: SimulatedGateway, _ isQuarantine: Bool) -> SimulatedGatewayConnection {
        let connection = SimulatedGatewayConnection(isQuarantine: isQuarantine, nowNs: ns)
        gateway.connections.append(connection)
        return connection
    }

    private func append(_ id: NotificationID, to connection: SimulatedGatewayConnection, _ worker: SimulatedWorker) {
        worker.flights[id]?.isQueued = false
        connection.places[id] = connection.frames.count
        append(id, worker.flights[id], to: connection)
    }

    private func append(
        _ id: NotificationID?, _ flight: SimulatedWorker.Flight?, to connection: SimulatedGatewayConnection
    ) {
        if connection.session.nextIdentifier != connection.frames.count + 1 { breaks("an identifier of another frame") }
        let bytes = Int.random(in: 100...300, using: &random)
        connection.session.open(id, bytes: bytes, openedMs: now.wallMs, nowNs: ns)
        let start = connection.output
        connection.output += Int64(bytes)
        connection.frames.append(.init(flight: flight, start: start, end: connection.output, openedNs: ns))
    }

    /// As `BinaryConnection` has it.
    private func fence(_ connection: SimulatedGatewayConnection) {
        if connection.session.canBeFenced, weather.answersFences {
            note("gateway: fence")
            append(nil, nil, to: connection)
        }
        connection.isDraining = true
    }

    /// As `BinaryConnection` has it.
    private func prove(_ connection: SimulatedGatewayConnection) {
        if connection.session.demandProof() { append(nil, nil, to: connection) }
        connection.isDraining = true
    }

    /// As `BinaryTransport` has it: a connection that came to nothing is gone.
    private func noteEnd(
        of connection: SimulatedGatewayConnection, isUnread: Bool, _ gateway: SimulatedGateway
    ) {
        guard !connection.isQuarantine else { return }
        gateway.dialsMs = nowMs + (isCalm ? 0 : .random(in: 0...2_000, using: &random))
        let wasOnProbation = gateway.reachability.isOnProbation
        if isUnread {
            gateway.admission.unread()
            gateway.reachability.endedUnread()
        } else {
            gateway.reachability.ended(
                wasAnswered: connection.hasAnswered, wasAsked: !connection.frames.isEmpty,
                lifeNs: ns - connection.madeNs)
        }
        guard mustProve(gateway), !wasOnProbation else { return }
        for other in gateway.connections where !other.isDraining { prove(other) }
    }

    /// Partitions go: what is open of them on connections is decided by an answer.
    func fence(_ ids: [NotificationID], _ worker: SimulatedWorker) {
        guard !ids.isEmpty else { return }
        let ids = Set(ids)
        for app in worker.gateways.keys.sorted() {
            for connection in worker.gateways[app]?.connections ?? [] where connection.session.holds(anyOf: ids) {
                fence(connection)
            }
        }
    }

    // MARK: One turn

    private func turn(
        _ connection: SimulatedGatewayConnection, _ gateway: SimulatedGateway, _ worker: SimulatedWorker
    ) {
        let isLeap = nowMs - connection.turnedMs > 100
        connection.turnedMs = nowMs
        let isDeaf = connection.isDeaf || !isCalm && nowMs < worker.deafUntilMs
        if !connection.isLost { write(connection, isAll: isCalm || isLeap, isDeaf: isDeaf, gateway) }
        // The process stood still while it waited: its alarm rings before it has read.
        if !isCalm, random.chance(isLeap ? 30 : 5) {
            note("gateway: interrupted wait")
            ring(connection, gateway, worker)
        }
        serve(connection, gateway, worker)
        hear(connection, isDeaf: isDeaf, gateway, worker)
        if isCalm || random.chance(70) { ring(connection, gateway, worker) }
        disturb(connection, gateway, worker)
    }

    /// The kernel takes what there is, or a part of it; so does the gateway's, which acknowledges it.
    private func write(
        _ connection: SimulatedGatewayConnection, isAll: Bool, isDeaf: Bool, _ gateway: SimulatedGateway
    ) {
        if isAll || random.chance(80) {
            connection.written = connection.output
        } else {
            connection.written = .random(in: connection.written...connection.output, using: &random)
        }
        guard !isDeaf, isAll || connection.stallsUntilMs <= nowMs else { return }
        let before = connection.acknowledged
        if isAll || random.chance(80) {
            connection.acknowledged = connection.written
        } else {
            connection.acknowledged = .random(in: connection.acknowledged...connection.written, using: &random)
        }
        if !isCalm, nowMs < gateway.unreadUntilMs {
            let end = connection.unreadEnd ?? before + .random(in: 0...3_000, using: &random)
            connection.unreadEnd = end
            connection.acknowledged = max(before, min(connection.acknowledged, end))
            connection.isLate = true
            return
        }
        connection.unreadEnd = nil
        for place in connection.frames.indices.suffix(from: connection.readCount)
        where connection.frames[place].arrivesMs == nil && connection.frames[place].end <= connection.acknowledged {
            let before = place > 0 ? connection.frames[place - 1].arrivesMs ?? nowMs : nowMs
            let takesMs: Int64 = random.chance(20) ? .random(in: 1...Self.readingMs, using: &random) : 0
            connection.frames[place].arrivesMs = max(before, nowMs + takesMs + connection.readsLateMs)
        }
    }

    /// The alarm of a connection: what has left, and what silence says of it.
    private func ring(
        _ connection: SimulatedGatewayConnection, _ gateway: SimulatedGateway, _ worker: SimulatedWorker
    ) {
        guard !connection.isLost else { return }
        connection.session.acknowledged(upTo: connection.acknowledged, nowNs: ns)
        var said: [Completion] = []
        let settled = connection.session.settleSilent(windowNs: gateway.patience.windowNs, nowNs: ns) {
            said.append($0)
        }
        tell(said, of: connection, worker)
        if settled > 0 { connection.hasAnswered = true }
        if settled > 0, !connection.isQuarantine {
            gateway.admission.settled(settled)
            gateway.reachability.answered()
        }
        if connection.session.isProofOverdue { note("gateway: no proof") }
        if connection.session.isSilent(forNs: Self.silenceNs, nowNs: ns) || connection.session.isProofOverdue {
            lose(connection, isSilent: true, gateway, worker)
        }
    }

    private func disturb(
        _ connection: SimulatedGatewayConnection, _ gateway: SimulatedGateway, _ worker: SimulatedWorker
    ) {
        guard !isCalm, !connection.isLost, !connection.session.isEmpty else { return }
        if random.chance(2) {
            note("gateway: slow")
            connection.stallsUntilMs = nowMs + .random(in: 20...1_000, using: &random)
        }
        // Another credential, or a connection too many: it finishes what is on it.
        if random.chance(1) { connection.isDraining = true }
        if faults.doubts, random.chance(1) {
            connection.isLate = true
            connection.readsLateMs = lateMs(gateway)
        }
        if faults.silence, random.chance(1) { connection.isDeaf = true }
        if faults.breaks, random.chance(2) { lose(connection, isSilent: false, gateway, worker) }
    }

    private func lateMs(_ gateway: SimulatedGateway) -> Int64 {
        .random(in: 1...2 * gateway.patience.windowNs / 1_000_000, using: &random) + gateway.patience.windowNs
            / 1_000_000
    }

    // MARK: The gateway

    private func serve(
        _ connection: SimulatedGatewayConnection, _ gateway: SimulatedGateway, _ worker: SimulatedWorker
    ) {
        while !connection.isLost, connection.answer == nil, connection.readCount < connection.frames.count,
            let arrivesMs = connection.frames[connection.readCount].arrivesMs, arrivesMs <= nowMs
        {
            if !isCalm, random.chance(1) {
                note("gateway: shutdown")
                say(10, connection.readCount, atMs: arrivesMs, connection, gateway)
                return
            }
            let flight = connection.frames[connection.readCount].flight
            if flight.flatMap({ books[$0.original]?.rule }) == .poison {
                return lose(connection, isSilent: false, gateway, worker)
            }
            let status = read(connection)
            guard status != 0 else { continue }
            // It closes without a word instead.
            if faults.breaks, !isCalm, random.chance(10) {
                return lose(connection, isSilent: false, gateway, worker)
            }
            say(status, connection.readCount, atMs: arrivesMs, connection, gateway)
        }
    }

    /// It takes the next frame.
    ///
    /// - Returns: the status of an error; 0: none.
    private func read(_ connection: SimulatedGatewayConnection) -> UInt8 {
        let place = connection.readCount
        connection.readCount += 1
        var status: UInt8 = weather.answersFences ? 8 : 0
        if let flight = connection.frames[place].flight {
            guard let book = books[flight.original], let rule = book.rule else {
                breaks("\(flight.original) was sent")
                return 0
            }
            status = rule.gatewayStatus(processed: book.processed)
            books[flight.original]?.processed += 1
            if status == 0 { books[flight.original]?.delivered += 1 }
        }
        connection.frames[place].state = status == 0 ? .delivered : .refused(status)
        return status
    }

    private func say(
        _ status: UInt8, _ identifier: Int, atMs: Int64, _ connection: SimulatedGatewayConnection,
        _ gateway: SimulatedGateway
    ) {
        var dueMs = atMs + .random(in: 0...Self.answeringMs, using: &random)
        if faults.doubts, !isCalm, random.chance(10) {
            connection.isLate = true
            dueMs += lateMs(gateway)
        }
        var identifier = UInt32(identifier)
        if faults.breaks, !isCalm, random.chance(1) {
            note("gateway: error of nobody")
            identifier = 0x7000_0000
        }
        connection.answer = (dueMs, GatewayAnswer(status: status, identifier: identifier))
    }

    /// What it said reaches the worker.
    private func hear(
        _ connection: SimulatedGatewayConnection, isDeaf: Bool, _ gateway: SimulatedGateway,
        _ worker: SimulatedWorker
    ) {
        guard let answer = connection.answer, !connection.isHeard, !connection.isLost, answer.dueMs <= nowMs else {
            return
        }
        if isDeaf {
            connection.isLate = true
            return
        }
        connection.isHeard = true
        connection.isDraining = true
        var said: [Completion] = []
        let meaning = connection.session.answered(
            answer.content, resendsDiscarded: weather.resendsDiscarded, nowNs: ns
        ) { said.append($0) }
        let wronged = connection.wronged
        let isLast = answer.content.isOfTheLastProcessed
        let identifier = Int(answer.content.identifier)
        let named = identifier > 0 && identifier <= connection.frames.count ? connection.frames[identifier - 1] : nil
        switch meaning {
        case .decided(let settled, let discarded, let byFence):
            note(byFence ? "gateway: fence answered" : isLast ? "gateway: shutdown heard" : "gateway: error")
            if !wronged.isEmpty { breaks("\(wronged.count) were lost, and nobody was told") }
            if named != nil, named?.flight == nil, !isLast, !byFence { breaks("a fence that decides nothing") }
            answered(gateway, connection, settled: settled, discarded: discarded, isProof: byFence || settled > 0)
        case .tooLate(let lostAtMost, let ageNs, let discarded):
            note("gateway: too late")
            if !connection.isLate { breaks("a gateway that is in time is said to be too late") }
            if wronged.count > lostAtMost {
                breaks("\(wronged.count) were lost, and \(lostAtMost) were told")
            }
            if let ageNs, ageNs < gateway.patience.windowNs, gateway.patience == BinaryPatience(weather.limits) {
                breaks("an error that came after \(ageNs) ns is said to be too late")
            }
            let windowNs = gateway.patience.windowNs
            if gateway.patience.wasTooShort(ageNs: ageNs) { note("gateway: window lengthened") }
            if gateway.patience.windowNs < windowNs { breaks("a shorter window") }
            answered(gateway, connection, settled: 0, discarded: discarded, isProof: true)
        case .unmatched(let lostAtMost):
            let isZero = isLast && answer.content.identifier == 0
            if !isZero, answer.content.identifier <= connection.frames.count { breaks("an answer that is of nobody") }
            if isZero, wronged.count > lostAtMost { breaks("\(wronged.count) were lost, and \(lostAtMost) were told") }
            if lostAtMost > 0 { note("gateway: nothing was processed") }
            if lostAtMost > 0, gateway.patience.wasTooShort(ageNs: nil) {
                note("gateway: window lengthened")
            }
            lose(connection, isSilent: false, gateway, worker)
        }
        tell(said, of: connection, worker)
    }

    private func answered(
        _ gateway: SimulatedGateway, _ connection: SimulatedGatewayConnection, settled: Int, discarded: Int,
        isProof: Bool
    ) {
        if isProof { connection.hasAnswered = true }
        guard !connection.isQuarantine else { return }
        if isProof { gateway.reachability.answered() } else { noteEnd(of: connection, isUnread: false, gateway) }
        gateway.admission.settled(settled)
        if discarded > settled { gateway.admission.discarded() }
    }

    // MARK: Ends

    /// The connection ends without a word; what was written may be read unseen, in order.
    private func lose(
        _ connection: SimulatedGatewayConnection, isSilent: Bool, _ gateway: SimulatedGateway, _ worker: SimulatedWorker
    ) {
        let isUnread =
            isSilent && !connection.session.mustProve && connection.session.isSilent(forNs: Self.silenceNs, nowNs: ns)
        note(isSilent ? "gateway: silent" : "gateway: closed without a word")
        loseUnseen(connection)
        connection.isLost = true
        connection.isDraining = true
        var said: [Completion] = []
        let inDoubt = connection.session.ended(written: connection.written, isSilent: isSilent) { said.append($0) }
        if !connection.isQuarantine {
            gateway.admission.ended(open: isSilent ? 0 : inDoubt, settled: connection.session.settledCount)
        }
        noteEnd(of: connection, isUnread: isUnread, gateway)
        tell(said, of: connection, worker)
    }

    func loseUnseen(_ connection: SimulatedGatewayConnection) {
        while connection.answer == nil, connection.readCount < connection.frames.count,
            connection.frames[connection.readCount].end <= connection.written, random.chance(70)
        {
            let flight = connection.frames[connection.readCount].flight
            if flight.flatMap({ books[$0.original]?.rule }) == .poison || read(connection) != 0 { break }
        }
    }

    /// The world ends: what is read later than that is read by nobody.
    func closeGateways() {
        for gateway in workers.flatMap(\.gateways.values) { gateway.connections.forEach(closed) }
    }

    /// Nothing more becomes of what is on it.
    func closed(_ connection: SimulatedGatewayConnection) {
        let wronged = connection.wronged
        guard !wronged.isEmpty else { return }
        if !connection.isHeard { note("gateway: too late, and nobody hears of it") }
        for frame in wronged {
            guard let flight = frame.flight else { continue }
            books[flight.original]?.isLostLate = true
        }
    }

    // MARK: Completions

    /// What the session says must be true.
    private func tell(
        _ completions: [Completion], of connection: SimulatedGatewayConnection, _ worker: SimulatedWorker
    ) {
        for completion in completions {
            guard let place = connection.places.removeValue(forKey: completion.id),
                let original = connection.frames[place].flight?.original
            else {
                breaks("the session closed an entry that is not open")
                return
            }
            check(completion, connection, place, original)
            tell(completion, worker)
        }
    }

    private func check(
        _ completion: Completion, _ connection: SimulatedGatewayConnection, _ place: Int, _ original: SimulatedPlace
    ) {
        let frame = connection.frames[place]
        switch completion.kind {
        case .notProcessed:
            if frame.state != .coming { breaks("what the gateway processed is said to be unprocessed") }
            switch completion.unprocessed {
            case .discarded, .discardedForGood:
                note("gateway: \(completion.unprocessed)")
                if !connection.isHeard { breaks("something is discarded, and the gateway said nothing") }
                let isForGood = completion.unprocessed == .discardedForGood
                if isForGood == weather.resendsDiscarded { breaks("what was discarded is treated as it is not to be") }
                if isForGood { books[original]?.isDiscarded = true }
            case .neverSent: break
            case .refusedByPeer: breaks("a gateway refuses no streams")
            }
        case .inDoubt:
            if !faults.doubts { breaks("something is in doubt without a fault") }
            if !connection.isLost { breaks("something is in doubt on a connection that lives") }
            if frame.start >= connection.written { breaks("something is in doubt that was never sent") }
        case .answered where completion.status == 200 && completion.isPresumed:
            note("gateway: presumed")
            connection.frames[place].isPresumed = true
            if connection.session.isAsked { breaks("silence accepts \(original) where an answer is asked for") }
            if connection.frames.contains(where: {
                $0.end > connection.acknowledged && ns - $0.openedNs >= 1_000_000_000
            }) {
                breaks("\(original) is taken for accepted by one that reads no further")
            }
            if frame.state != .delivered, !connection.isLate {
                breaks("\(original) is taken for accepted by a silence that was too short: \(frame.state)")
            }
        case .answered where completion.status == 200:
            if frame.state != .delivered { breaks("\(original) is said to be accepted: \(frame.state)") }
        case .answered:
            guard case .refused(let status) = frame.state else {
                breaks("\(original) is said to be refused: \(frame.state)")
                return
            }
            if completion.status != UInt16(status) {
                breaks("\(original) has status \(completion.status), not \(status)")
            }
            if status == 8, completion.reason != .badDeviceToken { breaks("\(original) has another reason") }
        }
    }
}

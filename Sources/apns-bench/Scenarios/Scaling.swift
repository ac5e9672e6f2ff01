import Glibc

/// Where the time goes in a run that looks how connections scale.
enum Distance: String {
    /// The simulator answers 50 ms after each request.
    case server
    /// A relay makes each way 25 ms long.
    case network

    static let milliseconds = 50
    /// HTTP/2's first window of a connection, which the simulator leaves as it is, and so does Apple.
    static let window = 65_535

    /// What n connections carry at most, a second.
    func limit(connections: Int) -> Double {
        let inFlight: Int
        switch self {
        case .server: inFlight = WorkerFile.streams
        case .network: inFlight = min(WorkerFile.streams, Self.window / Traffic.payloadSize)
        }
        return Double(connections * inFlight) * 1_000 / Double(Self.milliseconds)
    }
}

/// The built worker against the built simulator with default windows and 1,000 streams, with 1, 2, 4 and 8 connections.
func measureScaling(_ stage: Stage, _ distance: Distance) throws -> [ScalingRow] {
    let simulator = try SimulatedAPNs(
        stage, latency: distance == .server ? "\(Distance.milliseconds)ms" : nil)
    var address = simulator.address
    var relay: Child?
    if distance == .network {
        let port = try Ports.free(1)[0]
        let child = try Child(
            "relay",
            [
                Programs.own.path, RelayOptions.command, "--listen", "\(port)", "--target", "\(address.port)",
                "--delay-ms", "\(Distance.milliseconds / 2)",
            ], scratch: stage.scratch)
        try awaitServing(port, by: child)
        relay = child
        address = address.through(port: port)
    }
    defer { withExtendedLifetime((simulator, relay)) {} }
    var rows: [ScalingRow] = []
    for connections in [1, 2, 4, 8] {
        // Five seconds of what it can carry at most.
        let count = min(stage.options.count, Int(distance.limit(connections: connections)) * 5, 300_000)
        let requests = try stage.requests(RequestForm(), count: count)
        let file = WorkerFile(
            address: address, requests: requests, outputs: try stage.topics.newOutputs(), connections: connections)
        progress("\(Distance.milliseconds) ms of the \(distance.rawValue), \(connections) connections")
        let use = MachineUse()
        let ours = ProcessUse(
            [getpid(), simulator.processID] + [relay?.processID, stage.broker.processID].compactMap { $0 })
        let run = try WorkerRun(stage, file)
        try run.awaitResults(requests.count)
        let busy = (all: use.share, ours: ours.share(with: run.child.processID))
        let usage = try run.end()
        let book = try ResultBook(of: file.outputs.results, for: requests, in: stage.broker)
        rows.append(
            ScalingRow(
                distance: distance, connections: connections, count: requests.count,
                ratePerSecond: run.steadyRatePerSecond, machineBusy: busy.all, oursBusy: busy.ours,
                cpuUs: Double(usage.cpuNs) / 1_000 / Double(requests.count),
                peakResidentBytes: usage.peakResidentBytes, mostOpen: file.mostOpen,
                answerMs: book.answerMs.percentiles))
    }
    return rows
}

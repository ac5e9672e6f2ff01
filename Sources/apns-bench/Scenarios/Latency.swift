import Glibc

/// 1,000 requests a second, evenly, each sent by the producer as soon as it is there; the probe server tells when each
/// arrived. Before that a rush of requests, at most 200,000: a broker that was just started spends the cores on
/// compiling its own code, and acknowledges late.
func measureLatency(_ stage: Stage) throws -> LatencyFigures {
    let perSecond = 1_000
    let rush = min(200_000, stage.options.count)
    let warmUp = rush + 5 * perSecond
    let count = warmUp + stage.options.latencySeconds * perSecond
    let requests = RequestTopic(
        name: try stage.topics.newRequests("paced"), form: RequestForm(), count: count,
        partitions: stage.options.partitions)
    let server = try ProbedAPNs(stage)
    let file = WorkerFile(
        address: server.address, requests: requests, outputs: try stage.topics.newOutputs(),
        connections: stage.options.connections)
    progress("latency at \(perSecond) a second, for \(stage.options.latencySeconds) s")
    let producer = try PacedProducer(stage, requests, perSecond: perSecond)
    let run = try WorkerRun(stage, file)
    // Group joined, connections open, caches warm.
    try producer.send(0..<rush, isTimed: false, isPaced: false)
    try run.awaitResults(rush)
    try producer.send(rush..<warmUp, isTimed: false)
    try run.awaitResults(warmUp)
    let fromMs = Clocks.wallMs
    let cpuBefore = Clocks.cpuNs(of: run.child.processID) ?? 0
    let acknowledged = try producer.send(warmUp..<count, isTimed: true)
    try run.awaitResults(count)
    let cpuNs = (Clocks.cpuNs(of: run.child.processID) ?? 0) - cpuBefore
    _ = try run.end()
    let seen = try server.end()
    let book = try ResultBook(of: file.outputs.results, for: requests, in: stage.broker, requestedFromMs: fromMs)
    guard seen["timed"] == count - warmUp, let sent = book.sendMs.percentiles else {
        throw BenchFailure("the probe server saw \(seen["timed"] ?? 0) requests, not \(count - warmUp)")
    }
    func ms(_ name: String) -> Double { Double(seen[name] ?? 0) / 1_000 }
    return LatencyFigures(
        perSecond: perSecond, count: count - warmUp,
        arrival: Percentiles(p50: ms("p50_us"), p99: ms("p99_us"), p999: ms("p999_us")), arrivalMaximum: ms("max_us"),
        acknowledged: acknowledged, sent: sent, answer: book.answerMs.percentiles,
        cpuUs: Double(cpuNs) / 1_000 / Double(count - warmUp))
}

/// Produces at an even pace; each payload carries the moment.
private struct PacedProducer {
    private let producer: RequestProducer
    private let stepNs: Int64
    private let tokens: [[UInt8]]

    init(_ stage: Stage, _ requests: RequestTopic, perSecond: Int) throws(BenchFailure) {
        producer = try RequestProducer(requests.name, of: stage.broker, lingerMs: 0, notesTimes: true)
        stepNs = 1_000_000_000 / Int64(perSecond)
        tokens = stage.traffic.tokens.map { Array($0.utf8) }
    }

    /// - Parameter isTimed: false: the server does not count them.
    ///
    /// - Returns: from each to its acknowledgement by the broker.
    @discardableResult
    func send(_ numbers: Range<Int>, isTimed: Bool, isPaced: Bool = true) throws(BenchFailure) -> Percentiles {
        let before = producer.acknowledgedUs.count
        var payload = PayloadText.timed
        let topic = Array(Traffic.bundleID.utf8)
        let startNs = Clocks.monotonicNs
        for number in numbers {
            if isPaced { Clocks.sleep(untilNs: startNs + Int64(number - numbers.lowerBound) * stepNs) }
            if isTimed { payload.set(Int(Clocks.wallNs / 1_000)) }
            try producer.produce(key: tokens[number % tokens.count], value: payload.bytes) {
                RequestProducer.headers(topic: topic)
            }
            try producer.serve(timeoutMs: 0)
        }
        try producer.drain(until: Deadline(seconds: 30))
        return Percentiles(ofMicroseconds: Array(producer.acknowledgedUs[before...]))
    }
}

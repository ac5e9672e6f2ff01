/// Runs the worker over a topic, to the end, against a server; reads every result back.
///
/// - Parameter round: of how many, for whoever waits; empty: one.
func measureWorker(
    _ stage: Stage, _ subject: Subject, _ form: RequestForm, count: Int, round: String
) throws -> CostRow {
    let requests = try stage.requests(form, count: count)
    let sink = subject == .binary ? try GatewaySink(stage) : nil
    var file = WorkerFile(
        address: try sink?.address ?? stage.server().address, requests: requests,
        outputs: try stage.topics.newOutputs(),
        connections: stage.options.connections)
    file.windowMs = stage.options.windowMs
    progress("the whole worker: \(subject.title)\(round)")
    let run = try WorkerRun(stage, file)
    try run.awaitResults(requests.count)
    let usage = try run.end()
    if let taken = try sink?.end(), taken != requests.count {
        throw BenchFailure("the gateway has taken \(taken) of \(requests.count) notifications")
    }
    let book = try ResultBook(of: file.outputs.results, for: requests, in: stage.broker)
    var row = CostRow(
        name: subject.rawValue, title: subject.title, count: requests.count, usage: usage,
        ratePerSecond: run.ratePerSecond)
    row.mostOpen = file.mostOpen
    row.threads = run.threads
    row.samples = run.samples
    row.answerMs = book.answerMs.percentiles
    row.resultBytes = book.meanValueBytes
    return row
}

extension Subject {
    /// The worker's rows: how their requests are written, and at most how many there are.
    var workload: (form: RequestForm, limit: Int)? {
        switch self {
        case .payload, .binary: (RequestForm(), .max)
        case .envelope: (RequestForm(shape: .envelope(tokens: 1)), .max)
        case .fanOut: (RequestForm(shape: .envelope(tokens: 100)), .max)
        case .tenApps: (RequestForm(apps: 10), .max)
        case .hundredApps: (RequestForm(apps: 100), 300_000)
        case .floors, .parts, .latency, .streams, .network, .headers, .start: nil
        }
    }

    /// For people.
    var title: String {
        switch self {
        case .payload: "payload form"
        case .envelope: "envelope form"
        case .fanOut: "fan-out of 100"
        case .tenApps: "10 apps"
        case .hundredApps: "100 apps"
        case .binary: "binary protocol"
        case .floors, .parts, .latency, .streams, .network, .headers, .start: rawValue
        }
    }
}

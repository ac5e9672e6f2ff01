/// Bytes of HEADERS a request, as the probe server counts them behind the built worker.
func measureHeaders(_ stage: Stage) throws -> [HeaderRow] {
    let count = min(stage.options.count, 20_000)
    return try HeaderRow.Kind.allCases.map { kind in
        progress("HEADERS on the wire: \(kind.title)")
        let requests = try stage.requests(
            RequestForm(shape: kind == .producers ? .payloadWithID : .payload), count: count)
        let server = try ProbedAPNs(stage)
        let file = WorkerFile(
            address: server.address, requests: requests, outputs: try stage.topics.newOutputs(),
            connections: stage.options.connections, apnsID: kind == .none ? "apple" : "derived")
        let run = try WorkerRun(stage, file)
        try run.awaitResults(requests.count)
        _ = try run.end()
        _ = try ResultBook(of: file.outputs.results, for: requests, in: stage.broker)
        let seen = try server.end()
        guard let bytes = seen["header_bytes"], seen["requests"] == requests.count else {
            throw BenchFailure("the probe server saw \(seen["requests"] ?? 0) requests, not \(requests.count)")
        }
        return HeaderRow(kind: kind, count: requests.count, meanBytes: Double(bytes) / Double(requests.count))
    }
}

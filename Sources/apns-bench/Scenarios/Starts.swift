import Glibc

/// How soon a worker is at work: a new one, and one with static membership that was killed in the middle.
func measureStart(_ stage: Stage) throws -> StartFigures {
    let requests = try stage.requests(RequestForm(), count: stage.options.count)
    progress("the start of a worker")
    let fresh = try startFresh(stage, requests)
    progress("the start of a worker after kill -9")
    let restart = try startAfterKill(stage, requests)
    return StartFigures(
        toFirstResultMs: fresh.toFirstResultMs, toAssignmentMs: fresh.toAssignmentMs,
        assignmentToFirstSendMs: fresh.assignmentToFirstSendMs, killToFirstResultMs: restart)
}

private func startFresh(
    _ stage: Stage, _ requests: RequestTopic
) throws -> (toFirstResultMs: Int64, toAssignmentMs: Int64, assignmentToFirstSendMs: Int64) {
    let file = WorkerFile(
        address: try stage.server().address, requests: requests, outputs: try stage.topics.newOutputs(),
        connections: stage.options.connections)
    let run = try WorkerRun(stage, file)
    try run.awaitResults(requests.count)
    _ = try run.end()
    let book = try ResultBook(of: file.outputs.results, for: requests, in: stage.broker)
    // `2026-01-31T12:00:00.000Z info kafka: partitions assigned group=…`; the retry topics' group has its own.
    let line = run.child.output.split(separator: "\n").first {
        $0.contains("partitions assigned") && $0.contains(requests.name)
    }
    guard let line, let assignedMs = milliseconds(ofTimestamp: String(line.prefix(24))) else {
        throw BenchFailure("the worker did not log that partitions were assigned")
    }
    return (
        book.firstSettledMs - run.startedMs, assignedMs - run.startedMs, max(0, book.firstSentMs - assignedMs)
    )
}

/// Milliseconds from the kill to the first result of the worker that comes after.
private func startAfterKill(_ stage: Stage, _ requests: RequestTopic) throws -> Int64 {
    let file = WorkerFile(
        address: try stage.server().address, requests: requests, outputs: try stage.topics.newOutputs(),
        connections: stage.options.connections, instanceID: "bench-1")
    let run = try WorkerRun(stage, file)
    try run.awaitResults(requests.count / 10, pauseMs: 5)
    let killedMs = try run.killAndRestart()
    let restartedMs = run.startedMs
    try run.awaitResults(requests.count)
    // Some of them may be there twice.
    try run.awaitQuiet()
    _ = try run.end()
    let book = try ResultBook(
        of: file.outputs.results, for: requests, in: stage.broker, settledAfterMs: restartedMs, allowsRepeats: true)
    guard book.firstSettledMs < .max else { throw BenchFailure("the restarted worker had nothing left to send") }
    return book.firstSettledMs - killedMs
}

/// `2026-01-31T12:00:00.000Z`; `nil`: it is none.
private func milliseconds(ofTimestamp text: String) -> Int64? {
    let numbers = text.split { !$0.isNumber }.map { Int32($0) ?? 0 }
    guard numbers.count == 7, text.utf8.count == 24 else { return nil }
    var parts = tm()
    parts.tm_year = numbers[0] - 1_900
    parts.tm_mon = numbers[1] - 1
    (parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec) = (numbers[2], numbers[3], numbers[4], numbers[5])
    return Int64(timegm(&parts)) * 1_000 + Int64(numbers[6])
}

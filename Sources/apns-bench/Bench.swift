import Configuration
import Glibc

/// Something that ends the bench; one line that says what to do.
struct BenchFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// `apns-bench`.
func runBench(_ arguments: [String]) -> Int32 {
    do {
        switch try BenchOptions.table.parse(arguments, BenchOptions()) {
        case .help:
            say(BenchOptions.table.help)
            return 0
        case .values(let options):
            let report = try measure(options)
            say(options.asJSON ? report.json : report.text)
            if !options.historyFile.isEmpty { try appendLine(report.json, to: options.historyFile) }
            return 0
        }
    } catch let error as UsageError {
        complain("\(error)")
        return 64
    } catch {
        complain("apns-bench: \(error)")
        return 1
    }
}

/// Sets everything up, measures one after the other what is to be compared, and leaves nothing behind.
private func measure(_ options: BenchOptions) throws -> BenchReport {
    let programs = try Programs(options)
    // Before anything takes time.
    if !options.historyFile.isEmpty { try appendLine("", to: options.historyFile) }
    Interruption.holdBack()
    let scratch = try Scratch()
    defer { scratch.remove() }
    return try measure(options, programs, scratch)
}

/// When this returns, whatever way, every process it started is gone, so that nobody writes to `scratch` any more.
private func measure(_ options: BenchOptions, _ programs: Programs, _ scratch: Scratch) throws -> BenchReport {
    let stage = try Stage(options, programs, scratch)
    var report = BenchReport(options, Surroundings(programs, scratch))
    for round in 1...options.rounds {
        try measureCosts(stage, &report, round: options.rounds > 1 ? " (\(round) of \(options.rounds))" : "")
    }
    let wanted = options.subjects
    if wanted.contains(.parts) { report.parts = try measureParts(stage) }
    if wanted.contains(.latency) { report.latency = try measureLatency(stage) }
    if wanted.contains(.streams) { report.scaling += try measureScaling(stage, .server) }
    if wanted.contains(.network) { report.scaling += try measureScaling(stage, .network) }
    if wanted.contains(.headers) { report.headers = try measureHeaders(stage) }
    if wanted.contains(.start) { report.start = try measureStart(stage) }
    return report
}

/// The floors, and the worker at its full speed in all forms: side by side in one round.
private func measureCosts(_ stage: Stage, _ report: inout BenchReport, round: String) throws {
    let options = stage.options
    if options.subjects.contains(.floors) {
        if let row = try measureH2load(stage, round: round) { report.costs.add(row) }
        report.costs.add(try measureSendFloor(stage, round: round))
        report.costs.add(try measureKafkaFloor(stage, round: round))
    }
    for subject in Subject.allCases where options.subjects.contains(subject) {
        guard let workload = subject.workload else { continue }
        report.costs.add(
            try measureWorker(
                stage, subject, workload.form, count: min(options.count, workload.limit), round: round))
    }
}

/// Where it is, for whoever waits; on standard error, so that `--json` stays alone.
func progress(_ line: String) { complain("apns-bench: \(line)") }

/// One line on standard error.
func complain(_ line: String) { writeAll(line + "\n", to: STDERR_FILENO) }

/// Text on standard output.
func say(_ text: String) { writeAll(text, to: STDOUT_FILENO) }

private func writeAll(_ text: String, to descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return }
        rest = rest.dropFirst(count)
    }
}

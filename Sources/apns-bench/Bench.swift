import Configuration
import Glibc
import Kafka

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
    Interruption.holdBack()
    let scratch = try Scratch()
    defer { scratch.remove() }
    return try measure(options, programs, scratch)
}

/// When this returns, whatever way, every process it started is gone, so that nobody writes to `scratch` any more.
private func measure(_ options: BenchOptions, _ programs: Programs, _ scratch: Scratch) throws -> BenchReport {
    let broker = try Broker(options, java: programs.java, scratch: scratch)
    let traffic = Traffic(devices: options.devices)
    let topics = try RunTopics(broker, partitions: options.partitions)
    progress("writing \(options.count) requests")
    try fill(topics.requests, of: broker, count: options.count, traffic)
    progress("starting nghttpd")
    let server = try PushServer(programs.nghttpd, port: options.serverPort, traffic, scratch: scratch)

    var report = BenchReport(options: options, payloadBytes: Traffic.payloadSize)
    for round in 1...options.rounds {
        let suffix = options.rounds > 1 ? " (\(round) of \(options.rounds))" : ""
        let outputs = try topics.newRound()
        progress("the send floor: h2load\(suffix)")
        report.add(try measureSendFloor(programs.h2load, options, server, traffic, scratch: scratch))
        progress("the Kafka floor: a bare librdkafka loop\(suffix)")
        report.add(
            try measureKafkaFloor(options, broker, topics.requests, outputs.floorResults, scratch: scratch),
            try ResultBook(of: outputs.floorResults, in: broker, options))
        progress("the whole worker\(suffix)")
        report.add(
            try measureWorker(programs.worker, options, broker, topics.requests, outputs, server, scratch: scratch),
            try ResultBook(of: outputs.results, in: broker, options))
    }
    return report
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

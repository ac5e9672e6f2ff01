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
    let broker = try Broker(options, java: programs.java, scratch: scratch)
    let traffic = Traffic(devices: options.devices)
    let topics = try RunTopics(broker, partitions: options.partitions)
    progress("writing \(options.count) requests")
    try fill(topics.requests, of: broker, count: options.count, traffic)
    progress("starting nghttpd")
    let server = try PushServer(programs.nghttpd, port: options.serverPort, traffic, scratch: scratch)

    var rows: [Measurement] = []
    progress("the send floor: h2load")
    rows.append(try measureSendFloor(programs.h2load, options, server, traffic, scratch: scratch))
    progress("the Kafka floor: a bare librdkafka loop")
    rows.append(try measureKafkaFloor(options, broker, topics, scratch: scratch))
    let floorBook = try ResultBook(reading: topics.floorResults, of: broker, partitions: options.partitions)
    try floorBook.expect(options.count, in: topics.floorResults)
    progress("the whole worker")
    rows.append(try measureWorker(programs.worker, options, broker, topics, server, scratch: scratch))
    let workerBook = try ResultBook(reading: topics.results, of: broker, partitions: options.partitions)
    try workerBook.expect(options.count, in: topics.results)
    return BenchReport(
        options: options, payloadBytes: Traffic.payloadSize, rows: rows, floorResultBytes: floorBook.meanValueBytes,
        workerResultBytes: workerBook.meanValueBytes)
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

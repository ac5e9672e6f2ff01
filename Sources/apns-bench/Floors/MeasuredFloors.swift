import Glibc

/// h2load, nghttp2's load generator in C, posts the same requests to the same server; `nil`: it is not installed.
///
/// Its `apns-id` is one for all, as it cannot vary a header; and as every nghttp2 client it sends `authorization` whole
/// with each request.
func measureH2load(_ stage: Stage, round: String) throws -> CostRow? {
    guard let h2load = stage.programs.h2load else {
        progress("h2load is not installed (Debian: apt install nghttp2-client): the bare loop is the send floor")
        return nil
    }
    let server = try stage.server()
    let options = stage.options
    let addresses = stage.traffic.tokens.map { "https://127.0.0.1:\(server.address.port)/3/device/\($0)\n" }.joined()
    progress("the send floor: h2load\(round)")
    let child = try Child(
        "h2load",
        [
            h2load, "-n", "\(options.count)", "-c", "\(options.connections)", "-m", "1000", "-t", "1", "-i",
            stage.scratch.write(addresses, to: "addresses.txt"), "-d",
            stage.scratch.write(Traffic.payload(0), to: "payload.json"), "-H",
            "authorization: \(Traffic.authorization)", "-H", "apns-topic: \(Traffic.bundleID)", "-H",
            "apns-push-type: \(Traffic.pushType)", "-H", "apns-id: 00000000-0000-8000-8000-000000000000",
        ], scratch: stage.scratch)
    let usage = try child.wait(until: Deadline(seconds: options.timeoutSeconds))
    let output = child.output
    guard output.contains("status codes: \(options.count) 2xx"), let rate = rate(ofH2load: output) else {
        let line = output.split(separator: "\n").first { $0.hasPrefix("status codes") } ?? "h2load said nothing of it"
        throw BenchFailure("not all of h2load's requests were answered with 200: \(line)")
    }
    return CostRow(
        name: "h2load", title: "send floor: h2load", count: options.count, usage: usage, ratePerSecond: rate)
}

/// From its line `finished in 3.21s, 93457.94 req/s, 4.56MB/s`.
private func rate(ofH2load output: String) -> Double? {
    guard let line = output.split(separator: "\n").first(where: { $0.hasPrefix("finished in") }),
        let field = line.split(separator: ",").dropFirst().first
    else { return nil }
    return field.split(separator: " ").first.flatMap { Double($0) }
}

/// The bare nghttp2 and OpenSSL loop of SendFloor.swift, in a process of its own.
func measureSendFloor(_ stage: Stage, round: String) throws -> CostRow {
    let address = try stage.server().address
    let options = stage.options
    progress("the send floor: a bare nghttp2 and OpenSSL loop\(round)")
    let child = try Child(
        "send-floor",
        [
            Programs.own.path, SendFloorOptions.command, "--port", "\(address.port)", "--authority",
            address.authorityFile, "--connections", "\(options.connections)", "--count", "\(options.count)",
            "--devices", "\(options.devices)", "--timeout", "\(options.timeoutSeconds)",
        ], scratch: stage.scratch)
    return try floorRow(
        child, stage, name: "bare_send", title: "send floor: bare nghttp2")
}

/// The bare librdkafka loop of KafkaFloor.swift, in a process of its own.
func measureKafkaFloor(_ stage: Stage, round: String) throws -> CostRow {
    let requests = try stage.requests(RequestForm(), count: stage.options.count)
    let results = try stage.topics.newOutputs().results
    progress("the Kafka floor: a bare librdkafka loop\(round)")
    let child = try Child(
        "kafka-floor",
        [
            Programs.own.path, KafkaFloorOptions.command, "--bootstrap-servers", stage.broker.bootstrapServers,
            "--requests", requests.name, "--results", results, "--partitions", "\(requests.partitions)", "--count",
            "\(requests.count)", "--timeout", "\(stage.options.timeoutSeconds)",
        ], scratch: stage.scratch)
    var row = try floorRow(child, stage, name: "kafka_floor", title: "Kafka floor: bare librdkafka")
    row.resultBytes = try ResultBook(of: results, for: requests, in: stage.broker).meanValueBytes
    return row
}

/// A floor prints the milliseconds that it was at work.
private func floorRow(_ child: Child, _ stage: Stage, name: String, title: String) throws -> CostRow {
    let usage = try child.wait(until: Deadline(seconds: stage.options.timeoutSeconds + 10))
    guard let ms = child.output.split(separator: "\n").last.flatMap({ Double($0) }) else { throw child.failure }
    return CostRow(
        name: name, title: title, count: stage.options.count, usage: usage,
        ratePerSecond: Double(stage.options.count) * 1_000 / max(ms, 1))
}

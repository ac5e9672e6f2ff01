import Glibc

/// One of the three that are compared, as it was measured.
struct Measurement {
    /// What is compared; the word of `--json`.
    enum Kind: String, CaseIterable {
        case sendFloor = "send_floor"
        case kafkaFloor = "kafka_floor"
        case worker

        /// For people.
        var name: String {
            switch self {
            case .sendFloor: "send floor (h2load)"
            case .kafkaFloor: "Kafka floor (librdkafka)"
            case .worker: "whole worker"
            }
        }
    }

    var kind: Kind
    var usage: Usage
    /// Notifications a second while it was at work, by its own clock.
    var ratePerSecond: Double
    /// CPU by thread before it ended; empty: not looked at.
    var threads: [(name: String, ns: Int64)] = []
}

/// h2load, nghttp2's load generator in C, posts the same requests to the same server.
///
/// Its `apns-id` is one for all, as it cannot vary a header; and as every nghttp2 client it sends `authorization` whole
/// with each request.
func measureSendFloor(
    _ h2load: String, _ options: BenchOptions, _ server: PushServer, _ traffic: Traffic, scratch: Scratch
) throws -> Measurement {
    let addresses = traffic.tokens.map { "https://127.0.0.1:\(server.port)/3/device/\($0)\n" }.joined()
    // About as long as the worker's: header, claims and the signature's 64 bytes in base64url.
    let token = "bearer \(String(repeating: "eyJhbGciOiJFUzI1NiIs", count: 9))"
    let child = try Child(
        "h2load",
        [
            h2load, "-n", "\(options.count)", "-c", "\(options.connections)", "-m", "1000", "-t", "1", "-i",
            scratch.write(addresses, to: "addresses.txt"), "-d", scratch.write(Traffic.payload(0), to: "payload.json"),
            "-H", "authorization: \(token)", "-H", "apns-topic: \(Traffic.bundleID)", "-H",
            "apns-push-type: \(Traffic.pushType)", "-H", "apns-id: 00000000-0000-8000-8000-000000000000",
        ], scratch: scratch)
    let usage = try child.wait(until: Deadline(seconds: options.timeoutSeconds))
    let output = child.output
    guard output.contains("status codes: \(options.count) 2xx"), let rate = rate(ofH2load: output) else {
        let line = output.split(separator: "\n").first { $0.hasPrefix("status codes") } ?? "h2load said nothing of it"
        throw BenchFailure("not all of h2load's requests were answered with 200: \(line)")
    }
    return Measurement(kind: .sendFloor, usage: usage, ratePerSecond: rate)
}

/// From its line `finished in 3.21s, 93457.94 req/s, 4.56MB/s`.
private func rate(ofH2load output: String) -> Double? {
    guard let line = output.split(separator: "\n").first(where: { $0.hasPrefix("finished in") }),
        let field = line.split(separator: ",").dropFirst().first
    else { return nil }
    return field.split(separator: " ").first.flatMap { Double($0) }
}

/// The bare librdkafka loop of KafkaFloor.swift, in a process of its own.
func measureKafkaFloor(
    _ options: BenchOptions, _ broker: Broker, _ requests: String, _ results: String, scratch: Scratch
) throws -> Measurement {
    let child = try Child(
        "kafka-floor",
        [
            Programs.own.path, KafkaFloorOptions.command, "--bootstrap-servers", broker.bootstrapServers, "--requests",
            requests, "--results", results, "--partitions", "\(options.partitions)", "--count",
            "\(options.count)", "--timeout", "\(options.timeoutSeconds)",
        ], scratch: scratch)
    let usage = try child.wait(until: Deadline(seconds: options.timeoutSeconds + 10))
    guard let ms = child.output.split(separator: "\n").last.flatMap({ Double($0) }) else { throw child.failure }
    return Measurement(
        kind: .kafkaFloor, usage: usage,
        ratePerSecond: Double(options.count) * 1_000 / max(ms, 1))
}

/// The built worker: a fresh group reads the topic, sends everything to the server, and every result is in its topic.
func measureWorker(
    _ worker: String, _ options: BenchOptions, _ broker: Broker, _ requests: String, _ topics: RoundTopics,
    _ server: PushServer, scratch: Scratch
) throws -> Measurement {
    let file = try scratch.write(
        """
        kafka: {bootstrap_servers: "\(broker.bootstrapServers)", group_id: \(topics.results)}
        requests: {topics: [\(requests)]}
        results: {topic: \(topics.results)}
        unregistered: {topic: \(topics.unregistered)}
        dead_letters: {topic: \(topics.deadLetters)}
        retry: {tiers: {30s: \(topics.retry)}}
        apps:
          - name: bench
            bundle_ids: [\(Traffic.bundleID)]
            host: localhost
            port: \(server.port)
            token: {key_file: \(server.signingKeyFile), key_id: BENCHMARK1, team_id: TEAM123456}
            tls: {ca_file: \(server.authorityFile)}
            connections: {min: \(options.connections), max: \(options.connections)}
        admin: {listen: off}

        """, to: "\(topics.results).yaml")
    let results = try TopicEnds(topics.results, partitions: options.partitions, of: broker)
    let deadline = Deadline(seconds: options.timeoutSeconds)
    let child = try Child("apns-worker", [worker, "run", "--config", file], scratch: scratch)
    var first: (count: Int, ns: Int64)?
    var count = 0
    while count < options.count {
        try Interruption.pause(ms: 50)
        if child.hasEnded { throw child.failure }
        guard !deadline.isOver else {
            throw BenchFailure("the worker published \(count) of \(options.count) results in time; \(child.failure)")
        }
        count = try results.count()
        if first == nil, count > 0 { first = (count, Deadline.nowNs) }
    }
    let endNs = Deadline.nowNs
    let threads = child.threadTimes()
    child.signal(SIGTERM)
    let usage = try child.wait(until: Deadline(seconds: 40))
    // All but those that were there when it was first looked.
    let seconds = Double(endNs - (first?.ns ?? endNs)) / 1e9
    let rate = seconds > 0 ? Double(options.count - (first?.count ?? 0)) / seconds : 0
    return Measurement(kind: .worker, usage: usage, ratePerSecond: rate, threads: threads)
}

import Glibc

/// The built worker under callgrind, end to end between a Kafka broker and nghttpd. How many notifications share a batch
/// differs from run to run, and with it what they cost: figures are good to some hundredths.
struct WorkerProfile {
    /// quality.md's budget.
    static let swiftAllocationLimit = 1.0
    /// Under callgrind a program is some fifty times slower.
    private static let timeoutSeconds = 600

    private let scratch: Scratch
    private let callgrind: Callgrind
    private let options = BenchOptions()
    private let programs: Programs

    init(scratch: Scratch) throws(BenchFailure) {
        self.scratch = scratch
        callgrind = try Callgrind(scratch: scratch)
        programs = try Programs(options)
    }

    /// Over `count` notifications in payload form, and over three times as many.
    func measure(count: Int) throws -> Profile {
        let broker = try Broker(options, java: programs.java, scratch: scratch)
        let traffic = Traffic(devices: options.devices)
        progress("starting nghttpd")
        let server = try PushServer(programs.nghttpd, port: 0, traffic, scratch: scratch)
        let worker = try callgrind.readable(programs.worker)
        let short = try run(worker, count, broker, traffic, server)
        let long = try run(worker, 3 * count, broker, traffic, server)
        return Profile(short: short, count, long: long, 3 * count)
    }

    private func run(_ worker: String, _ count: Int, _ broker: Broker, _ traffic: Traffic, _ server: PushServer) throws
        -> CallgrindFile
    {
        let topics = try RunTopics(broker, partitions: options.partitions)
        let outputs = try topics.newRound()
        try fill(topics.requests, of: broker, count: count, traffic)
        let results = try TopicEnds(outputs.results, partitions: options.partitions, of: broker)
        let configuration = try scratch.write(
            """
            kafka: {bootstrap_servers: "\(broker.bootstrapServers)", group_id: \(outputs.results)}
            requests: {topics: [\(topics.requests)]}
            results: {topic: \(outputs.results)}
            unregistered: {topic: \(outputs.unregistered)}
            dead_letters: {topic: \(outputs.deadLetters)}
            retry: {tiers: {30s: \(outputs.retry)}}
            apps:
              - name: bench
                bundle_ids: [\(Traffic.bundleID)]
                host: localhost
                port: \(server.port)
                token: {key_file: \(server.signingKeyFile), key_id: BENCHMARK1, team_id: TEAM123456}
                tls: {ca_file: \(server.authorityFile)}
                connections: {min: \(options.connections), max: \(options.connections)}
            admin: {listen: off}

            """, to: "worker-\(count).yaml")
        progress("the worker under callgrind: \(count) notifications")
        let run = try callgrind.start("worker-\(count)", [worker, "run", "--config", configuration])
        let deadline = Deadline(seconds: Self.timeoutSeconds)
        var published = 0
        while published < count {
            try Interruption.pause(ms: 200)
            if run.child.hasEnded { throw run.child.failure }
            guard !deadline.isOver else {
                throw BenchFailure(
                    "the worker published \(published) of \(count) results in time; \(run.child.failure)")
            }
            published = try results.count()
        }
        run.child.signal(SIGTERM)
        _ = try run.child.wait(until: Deadline(seconds: 120))
        return try run.file()
    }
}

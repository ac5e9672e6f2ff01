import Glibc

/// The built worker under callgrind, end to end between a Kafka broker and nghttpd. How many notifications share a
/// batch differs from run to run, and with it what they cost: figures are good to some hundredths.
struct WorkerProfile {
    /// The budget: <doc:WhatItCosts>.
    static let swiftAllocationLimit = 1.0
    /// Under callgrind a program is some fifty times slower.
    private static let timeoutSeconds = 600

    private let callgrind: Callgrind
    private let stage: Stage
    private let worker: String

    init(scratch: Scratch) throws {
        callgrind = try Callgrind(scratch: scratch)
        let options = BenchOptions()
        stage = try Stage(options, Programs(options), scratch)
        worker = try callgrind.readable(stage.programs.worker)
    }

    /// Over `count` notifications, and over three times as many.
    func measure(_ form: RequestForm, count: Int) throws -> Profile {
        let short = try run(form, count)
        let long = try run(form, 3 * count)
        return Profile(short: short, count, long: long, 3 * count)
    }

    private func run(_ form: RequestForm, _ count: Int) throws -> CallgrindFile {
        let requests = try stage.requests(form, count: count)
        let file = WorkerFile(
            address: try stage.server().address, requests: requests, outputs: try stage.topics.newOutputs(),
            connections: stage.options.connections)
        // Both runs go through this limit many times: before it is reached, each notification takes new memory.
        let text = file.text(stage.broker).replacing("delivery: {", with: "delivery: {max_open: 1000, ")
        let configuration = try stage.scratch.write(text, to: "worker-\(count).yaml")
        let results = try TopicEnds(file.outputs.results, partitions: requests.partitions, of: stage.broker)
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

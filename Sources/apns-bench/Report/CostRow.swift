import JSON

/// What one measured process has cost.
struct CostRow {
    /// The word of `--json`.
    var name: String
    /// For people.
    var title: String
    /// Notifications.
    var count: Int
    var usage: Usage
    /// Notifications a second while it was at work, by its own clock.
    var ratePerSecond: Double
    /// Notifications that it could have open at once; 0: a floor.
    var mostOpen = 0
    /// CPU by thread before it ended; empty: not looked at.
    var threads: [(name: String, ns: Int64)] = []
    /// As it went on; empty: not looked at.
    var samples: [Sample] = []
    /// From a request to its answer.
    var answerMs: Percentiles?
    /// Of a result's value, in the mean.
    var resultBytes: Int?

    /// CPU of a notification, in microseconds.
    var cpuUs: Double { microseconds(usage.cpuNs) }

    func microseconds(_ ns: Int64) -> Double { Double(ns) / 1_000 / Double(max(1, count)) }

    /// CPU of a notification in each stretch between two samples, the first from the start.
    var stretchesUs: [Double] {
        var before = Sample(results: 0, ns: 0, cpuNs: 0, residentBytes: 0)
        return samples.map { sample in
            defer { before = sample }
            return Double(sample.cpuNs - before.cpuNs) / 1_000 / Double(max(1, sample.results - before.results))
        }
    }

    /// CPU of a notification without the first tenth, in which connections are made; `nil`: there are no samples.
    var steadyUs: Double? { samples.first.flatMap { cpuUs(from: $0.results, to: count) } }

    /// CPU of a notification between two numbers of results; `nil`: there is no sample for it.
    func cpuUs(from: Int, to: Int) -> Double? {
        guard let first = samples.first(where: { $0.results >= from }),
            let last = samples.first(where: { $0.results >= to }), last.results > first.results
        else { return nil }
        return Double(last.cpuNs - first.cpuNs) / 1_000 / Double(last.results - first.results)
    }

    func write(to json: inout JSONWriter) {
        json.member("count", count)
        json.member("cpu_us", cpuUs)
        if let steadyUs { json.member("steady_cpu_us", steadyUs) }
        json.member("user_us", microseconds(usage.userNs))
        json.member("system_us", microseconds(usage.systemNs))
        json.member("per_second", ratePerSecond)
        json.member("max_resident_bytes", usage.peakResidentBytes)
        json.member("voluntary_switches", usage.voluntarySwitches)
        json.member("involuntary_switches", usage.involuntarySwitches)
        if let resultBytes { json.member("result_bytes", resultBytes) }
        if let answerMs { json.member("answer_ms") { answerMs.write(to: &$0) } }
        if !threads.isEmpty {
            json.member("thread_cpu_us") { json in
                for thread in threads { json.member(thread.name, microseconds(thread.ns)) }
            }
        }
        if !samples.isEmpty {
            json.name("samples")
            json.beginArray()
            for (sample, us) in zip(samples, stretchesUs) {
                json.beginObject()
                json.member("results", sample.results)
                json.member("ms", Double(sample.ns) / 1e6)
                json.member("cpu_ms", Double(sample.cpuNs) / 1e6)
                json.member("stretch_cpu_us", us)
                json.member("resident_bytes", sample.residentBytes)
                json.endObject()
            }
            json.endArray()
        }
    }
}

import Glibc
import JSON

/// The figures of one run, for people and for machines.
struct BenchReport {
    /// Worker to floors; quality.md's budget.
    static let budget = 1.25

    let options: BenchOptions
    let payloadBytes: Int
    /// Of each kind the round that cost least: whatever else the machine does only adds.
    private var best: [Measurement.Kind: Measurement] = [:]
    private var resultBytes: [Measurement.Kind: Int] = [:]

    init(options: BenchOptions, payloadBytes: Int) {
        self.options = options
        self.payloadBytes = payloadBytes
    }

    /// - Parameter book: the results it published; `nil`: it publishes none.
    mutating func add(_ measurement: Measurement, _ book: ResultBook? = nil) {
        resultBytes[measurement.kind] = book?.meanValueBytes
        if let other = best[measurement.kind], other.usage.cpuNs <= measurement.usage.cpuNs { return }
        best[measurement.kind] = measurement
    }

    private var rows: [Measurement] { Measurement.Kind.allCases.compactMap { best[$0] } }

    private func cpuNs(_ kind: Measurement.Kind) -> Double { Double(best[kind]?.usage.cpuNs ?? 0) }

    /// CPU of the worker to that of the floors together.
    private var ratio: Double { cpuNs(.worker) / max(1, cpuNs(.sendFloor) + cpuNs(.kafkaFloor)) }

    private func microseconds(_ ns: Int64) -> Double { Double(ns) / 1_000 / Double(options.count) }

    // MARK: For people

    var text: String {
        var lines = [
            "\(options.count) notifications: payload \(payloadBytes) bytes, \(options.devices) devices, "
                + "\(options.partitions) partitions, \(options.connections) connections"
                + (options.rounds > 1 ? "; of each the least of \(options.rounds) rounds" : ""),
            "",
            Self.line("", ["CPU us each", "user", "system", "per second", "max RSS MB", "switches", "forced"]),
        ]
        lines += rows.map { row in
            Self.line(
                row.kind.name,
                [
                    Self.fixed(microseconds(row.usage.cpuNs), 2), Self.fixed(microseconds(row.usage.userNs), 2),
                    Self.fixed(microseconds(row.usage.systemNs), 2), Self.fixed(row.ratePerSecond, 0),
                    Self.fixed(Double(row.usage.peakResidentBytes) / 1_048_576, 1),
                    "\(row.usage.voluntarySwitches)", "\(row.usage.involuntarySwitches)",
                ])
        }
        lines += [
            "",
            "worker / (send floor + Kafka floor): \(Self.fixed(ratio, 2))   (budget \(Self.fixed(Self.budget, 2)))",
        ]
        for row in rows where !row.threads.isEmpty {
            let threads = row.threads.prefix(8).map { "\($0.name) \(Self.fixed(microseconds($0.ns), 2))" }
            lines.append("threads of the \(row.kind.name), CPU us each: \(threads.joined(separator: ", "))")
        }
        lines.append(
            "every request has one result, accepted; bytes of a result's value: Kafka floor "
                + "\(resultBytes[.kafkaFloor] ?? 0), worker \(resultBytes[.worker] ?? 0)")
        return lines.joined(separator: "\n") + "\n"
    }

    private static func line(_ name: String, _ fields: [String]) -> String {
        let padded = name + String(repeating: " ", count: max(0, 26 - name.count))
        return padded + fields.map { String(repeating: " ", count: max(1, 12 - $0.count)) + $0 }.joined()
    }

    /// A number with so many digits after its point.
    private static func fixed(_ value: Double, _ digits: Int) -> String {
        let scale = pow(10, Double(digits))
        let scaled = Int((value * scale).rounded())
        guard digits > 0 else { return "\(scaled)" }
        let fraction = "\(scaled % Int(scale))"
        return "\(scaled / Int(scale))." + String(repeating: "0", count: digits - fraction.count) + fraction
    }

    // MARK: For machines

    /// One object, one line.
    var json: String {
        var json = JSONWriter(capacity: 2_048)
        json.beginObject()
        json.name("count")
        json.value(options.count)
        json.name("payload_bytes")
        json.value(payloadBytes)
        json.name("devices")
        json.value(options.devices)
        json.name("partitions")
        json.value(options.partitions)
        json.name("connections")
        json.value(options.connections)
        json.name("rounds")
        json.value(options.rounds)
        for row in rows {
            json.name(row.kind.rawValue)
            write(row, to: &json)
        }
        json.name("ratio")
        json.value(ratio)
        json.name("budget")
        json.value(Self.budget)
        json.name("floor_result_bytes")
        json.value(resultBytes[.kafkaFloor] ?? 0)
        json.name("worker_result_bytes")
        json.value(resultBytes[.worker] ?? 0)
        json.endObject()
        return json.text + "\n"
    }

    private func write(_ row: Measurement, to json: inout JSONWriter) {
        json.beginObject()
        json.name("cpu_us")
        json.value(microseconds(row.usage.cpuNs))
        json.name("user_us")
        json.value(microseconds(row.usage.userNs))
        json.name("system_us")
        json.value(microseconds(row.usage.systemNs))
        json.name("per_second")
        json.value(row.ratePerSecond)
        json.name("max_resident_bytes")
        json.value(row.usage.peakResidentBytes)
        json.name("voluntary_switches")
        json.value(row.usage.voluntarySwitches)
        json.name("involuntary_switches")
        json.value(row.usage.involuntarySwitches)
        if !row.threads.isEmpty {
            json.name("thread_cpu_us")
            json.beginObject()
            for thread in row.threads {
                json.name(thread.name)
                json.value(microseconds(thread.ns))
            }
            json.endObject()
        }
        json.endObject()
    }
}

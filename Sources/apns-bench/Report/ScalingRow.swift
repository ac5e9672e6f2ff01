import JSON

/// What some connections carry where answers take their time.
struct ScalingRow {
    static let shareBudget = 0.9
    /// So much of the machine in use is all of it: the rest is waiting for each other.
    static let fullMachine = 0.9

    var distance: Distance
    var connections: Int
    var count: Int
    /// Between the first tenth and the last.
    var ratePerSecond: Double
    /// How much of all processors' time was used in the run, by whomever.
    var machineBusy: Double
    /// The same by worker, simulator, relay, the bench and its broker.
    var oursBusy: Double
    var cpuUs: Double
    var peakResidentBytes: Int
    /// Notifications that could be open at once.
    var mostOpen: Int
    var answerMs: Percentiles?

    var limit: Double { distance.limit(connections: connections) }

    var findings: [Finding] { [share, resident] }

    private var share: Finding {
        Finding(
            "\(distance.rawValue)_50ms_\(connections)",
            "50 ms of the \(distance.rawValue), \(connections) connections, of the formula", ratePerSecond / limit,
            .atLeast,
            Self.shareBudget, excuse: excuse)
    }

    private var resident: Finding {
        Finding(
            "\(distance.rawValue)_50ms_\(connections)_max_resident_mb",
            "50 ms of the \(distance.rawValue), \(connections) connections, max RSS MB, \(mostOpen) open at most",
            Double(peakResidentBytes) / 1_048_576, .atMost,
            Double(CostTable.residentBudget(open: mostOpen)) / 1_048_576, digits: 1)
    }

    private var excuse: String? {
        if oursBusy >= Self.fullMachine { return "processors full" }
        return machineBusy >= Self.fullMachine ? "machine busy with other things" : nil
    }

    static func lines(_ rows: [ScalingRow]) -> [String] {
        if rows.isEmpty { return [] }
        var table = TextTable([
            "50 ms away", "connections", "per second", "formula", "of it", "machine busy", "with it", "CPU us each",
            "max RSS MB", "answer ms p50", "p99", "p99.9", "budget",
        ])
        for row in rows {
            let times = row.answerMs.map { [fixed($0.p50, 0), fixed($0.p99, 0), fixed($0.p999, 0)] } ?? ["", "", ""]
            table.add(
                [
                    "of the \(row.distance.rawValue)", "\(row.connections)", fixed(row.ratePerSecond, 0),
                    fixed(row.limit, 0), fixed(row.ratePerSecond / row.limit, 2),
                    "\(fixed(row.machineBusy * 100, 0)) %", "\(fixed(row.oursBusy * 100, 0)) %", fixed(row.cpuUs, 2),
                    fixed(Double(row.peakResidentBytes) / 1_048_576, 1),
                ] + times + [row.share.verdict])
        }
        return table.lines
            + (rows.contains { $0.distance == .network }
                ? [
                    "the network's window is HTTP/2's (65,535 bytes a connection): the relay takes what comes, and "
                        + "acknowledges it to TCP at once"
                ] : [])
    }

    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("at", distance.rawValue)
        json.member("connections", connections)
        json.member("count", count)
        json.member("per_second", ratePerSecond)
        json.member("formula_per_second", limit)
        json.member("machine_busy", machineBusy)
        json.member("ours_busy", oursBusy)
        json.member("cpu_us", cpuUs)
        json.member("max_resident_bytes", peakResidentBytes)
        json.member("most_open", mostOpen)
        if let answerMs { json.member("answer_ms") { answerMs.write(to: &$0) } }
        json.endObject()
    }
}

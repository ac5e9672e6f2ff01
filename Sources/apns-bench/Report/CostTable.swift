import JSON

/// What floors and worker have cost, beside each other.
struct CostTable {
    /// Worker to floors; the budgets of <doc:WhatItCosts>.
    static let ratioBudget = 1.25
    static let envelopeExtraUs = 0.5
    static let binaryExtraUs = 3.0

    /// Bytes of memory at most where so many notifications may be open at once, over either transport.
    static func residentBudget(open: Int) -> Int { 64 << 20 + max(0, open - 7_000) * 2_048 }

    /// Of each the round that cost least: whatever else the machine does only adds. In the order they came.
    private(set) var rows: [CostRow] = []

    mutating func add(_ row: CostRow) {
        guard let index = rows.firstIndex(where: { $0.name == row.name }) else { return rows.append(row) }
        if row.usage.cpuNs < rows[index].usage.cpuNs { rows[index] = row }
    }

    subscript(name: String) -> CostRow? { rows.first { $0.name == name } }

    subscript(subject: Subject) -> CostRow? { self[subject.rawValue] }

    /// The lower of the two.
    var sendFloor: CostRow? { [self["h2load"], self["bare_send"]].compactMap { $0 }.min { $0.cpuUs < $1.cpuUs } }

    /// Both together, in microseconds.
    var floorUs: Double? {
        guard let send = sendFloor, let kafka = self["kafka_floor"] else { return nil }
        return send.cpuUs + kafka.cpuUs
    }

    /// CPU of the worker to that of the floors together.
    var ratio: Double? {
        guard let floorUs, let worker = self[.payload] else { return nil }
        return worker.cpuUs / max(floorUs, 0.001)
    }

    // MARK: Budgets

    /// Of one row.
    private func finding(of row: CostRow) -> Finding? {
        let name = "\(row.name)_cpu_us"
        let payload = self[.payload]
        switch Subject(rawValue: row.name) {
        case .payload:
            return floorUs.map { Finding(name, "\(row.title), CPU us each", row.cpuUs, .atMost, $0 * Self.ratioBudget) }
        case .envelope:
            return payload.map {
                Finding(name, "\(row.title), CPU us each", row.cpuUs, .atMost, $0.cpuUs + Self.envelopeExtraUs)
            }
        case .fanOut:
            return payload.map { Finding(name, "\(row.title), CPU us each", row.cpuUs, .atMost, $0.cpuUs) }
        case .binary:
            return self["kafka_floor"].map {
                Finding(name, "\(row.title), CPU us each", row.cpuUs, .atMost, $0.cpuUs + Self.binaryExtraUs)
            }
        case .tenApps, .hundredApps:
            // Cost of a notification must not grow with them; connections and their handshakes do.
            guard let steadyUs = row.steadyUs, let payloadUs = payload?.steadyUs else { return nil }
            return Finding(
                name, "\(row.title), CPU us each without the first tenth", steadyUs, .atMost, payloadUs)
        case .floors, .parts, .latency, .streams, .network, .headers, .start, nil: return nil
        }
    }

    private func residentFinding(of row: CostRow, _ name: String) -> Finding {
        Finding(
            name, "\(row.title), max RSS MB, \(row.mostOpen) open at most",
            Double(row.usage.peakResidentBytes) / 1_048_576, .atMost,
            Double(Self.residentBudget(open: row.mostOpen)) / 1_048_576, digits: 1)
    }

    var findings: [Finding] {
        var findings: [Finding] = []
        if let ratio {
            findings.append(
                Finding("ratio", "worker / (send floor + Kafka floor)", ratio, .atMost, Self.ratioBudget))
        }
        for row in rows {
            if row.name != Subject.payload.rawValue, let finding = finding(of: row) { findings.append(finding) }
        }
        if let binary = self[.binary] { findings.append(residentFinding(of: binary, "binary_max_resident_mb")) }
        guard let worker = self[.payload] else { return findings }
        findings.append(residentFinding(of: worker, "max_resident_mb"))
        if worker.count >= 3_000_000, let early = worker.cpuUs(from: 1_000_000, to: 2_000_000),
            let late = worker.cpuUs(from: worker.count - 1_000_000, to: worker.count)
        {
            findings.append(
                Finding("last_million_cpu", "CPU of the last million / of the second", late / early, .atMost, 1.05))
        }
        if worker.count >= 1_000_000, let first = worker.samples.first, let last = worker.samples.last {
            findings.append(
                Finding(
                    "resident_growth", "memory at the end / at a tenth",
                    Double(last.residentBytes) / Double(max(1, first.residentBytes)), .atMost, 1.05))
        }
        return findings
    }

    // MARK: For people

    var lines: [String] {
        if rows.isEmpty { return [] }
        var table = TextTable([
            "", "CPU us each", "user", "system", "per second", "max RSS MB", "answer ms p50", "p99", "p99.9", "budget",
        ])
        for row in rows {
            let times = row.answerMs.map { [$0.p50, $0.p99, $0.p999] }
            table.add(
                [
                    row.title, fixed(row.cpuUs, 2), fixed(row.microseconds(row.usage.userNs), 2),
                    fixed(row.microseconds(row.usage.systemNs), 2), fixed(row.ratePerSecond, 0),
                    megabytes(row.usage.peakResidentBytes),
                ] + (times?.map { fixed($0, 0) } ?? ["", "", ""]) + [finding(of: row)?.verdict ?? ""])
        }
        var lines = table.lines
        for row in rows where !row.samples.isEmpty {
            let ends = [row.samples.first, row.samples.last].map { megabytes($0?.residentBytes ?? 0) }
            let each = row.stretchesUs.map { fixed($0, 2) }.joined(separator: " ")
            lines.append("\(row.title), as it went on: resident \(ends[0]) .. \(ends[1]) MB, CPU us each \(each)")
        }
        for row in rows
        where !row.threads.isEmpty && [Subject.payload, .binary].contains(where: { $0.rawValue == row.name }) {
            let threads = row.threads.prefix(8).map { "\($0.name) \(fixed(row.microseconds($0.ns), 2))" }
            lines.append("\(row.title), CPU us each by thread: \(threads.joined(separator: ", "))")
        }
        let sizes = rows.compactMap { row in row.resultBytes.map { "\(row.title) \($0)" } }
        if !sizes.isEmpty {
            lines.append("every request has one result, accepted; bytes of a result: \(sizes.joined(separator: ", "))")
        }
        return lines
    }

    func write(to json: inout JSONWriter) {
        if let sendFloor { json.member("send_floor", sendFloor.name) }
        json.member("costs") { json in
            for row in rows { json.member(row.name) { row.write(to: &$0) } }
        }
        if let ratio { json.member("ratio", ratio) }
    }
}

import JSON

/// The figures of one run, for people and for machines.
struct BenchReport {
    let options: BenchOptions
    let surroundings: Surroundings
    var costs = CostTable()
    var parts: [PartFigure] = []
    var latency: LatencyFigures?
    var scaling: [ScalingRow] = []
    var headers: [HeaderRow] = []
    var start: StartFigures?

    init(_ options: BenchOptions, _ surroundings: Surroundings) {
        self.options = options
        self.surroundings = surroundings
    }

    private var findings: [Finding] {
        costs.findings + (latency?.findings ?? []) + scaling.flatMap(\.findings) + headers.map(\.finding)
            + (start?.findings ?? [])
    }

    // MARK: For people

    var text: String {
        let rounds = options.rounds > 1 ? "; of each the least of \(options.rounds) rounds" : ""
        let commit = surroundings.commit.map { ", commit \($0)" } ?? ""
        var sections = [
            [
                "\(options.count) notifications: payload \(Traffic.payloadSize) bytes, \(options.devices) devices, "
                    + "\(options.partitions) partitions, \(options.connections) connections\(rounds)",
                "\(surroundings.at), \(surroundings.processor)\(commit)",
            ],
            costs.lines, PartFigure.lines(parts), latency?.lines ?? [], ScalingRow.lines(scaling),
            HeaderRow.lines(headers), start?.lines ?? [],
        ]
        if !findings.isEmpty {
            var table = TextTable(["budgets", "", ""])
            for finding in findings {
                table.add(["  \(finding.what)", fixed(finding.figure, finding.digits), finding.verdict])
            }
            sections.append(table.lines)
        }
        return sections.filter { !$0.isEmpty }.map { $0.joined(separator: "\n") }.joined(separator: "\n\n") + "\n"
    }

    // MARK: For machines

    /// One object, one line: what `--json` prints and a history keeps.
    var json: String {
        var json = JSONWriter(capacity: 8_192)
        json.beginObject()
        surroundings.write(to: &json)
        json.member("count", options.count)
        json.member("payload_bytes", Traffic.payloadSize)
        json.member("devices", options.devices)
        json.member("partitions", options.partitions)
        json.member("connections", options.connections)
        json.member("rounds", options.rounds)
        costs.write(to: &json)
        json.member("parts") { json in
            for part in parts { json.member(part.name) { part.write(to: &$0) } }
        }
        if let latency { json.member("latency") { latency.write(to: &$0) } }
        json.array("scaling", scaling) { $1.write(to: &$0) }
        json.array("headers", headers) { $1.write(to: &$0) }
        if let start { json.member("start") { start.write(to: &$0) } }
        json.array("budgets", findings) { $1.write(to: &$0) }
        json.endObject()
        return json.text + "\n"
    }
}

extension JSONWriter {
    /// Nothing where there are no elements.
    fileprivate mutating func array<Element>(
        _ name: String, _ elements: [Element], _ write: (inout JSONWriter, Element) -> Void
    ) {
        if elements.isEmpty { return }
        self.name(name)
        beginArray()
        for element in elements { write(&self, element) }
        endArray()
    }
}

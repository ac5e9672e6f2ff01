import JSON

/// What a part of the worker costs in memory alone.
struct PartFigure {
    let name: String
    let count: Int
    let cpuNs: Int64

    var cpuUs: Double { Double(cpuNs) / 1_000 / Double(max(1, count)) }

    static func lines(_ parts: [PartFigure]) -> [String] {
        if parts.isEmpty { return [] }
        var table = TextTable(["in memory alone", "CPU us each", ""])
        for part in parts { table.add([part.name, fixed(part.cpuUs, 3), ""]) }
        return table.lines
    }

    func write(to json: inout JSONWriter) {
        json.member("count", count)
        json.member("cpu_us", cpuUs)
    }
}

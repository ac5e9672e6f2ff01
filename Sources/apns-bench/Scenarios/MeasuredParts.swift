import JSON

/// Runs each part in a process of its own (`apns-bench part`).
func measureParts(_ stage: Stage) throws -> [PartFigure] {
    try Part.allCases.map(\.rawValue).map { name in
        progress("the worker's parts: \(name)")
        let child = try Child(
            "part-\(name)", [Programs.own.path, "part", name, "-n", "\(min(stage.options.count, 1_000_000))"],
            scratch: stage.scratch)
        _ = try child.wait(until: Deadline(seconds: stage.options.timeoutSeconds))
        guard let line = child.output.split(separator: "\n").last, let figure = try? PartFigure(json: String(line))
        else { throw child.failure }
        return figure
    }
}

extension PartFigure {
    /// `{"part":"parse","count":1000000,"cpu_ns":123456789}`
    init(json text: String) throws {
        var text = text
        self = try text.withUTF8 { bytes in
            var reader = try JSONReader(UnsafeRawBufferPointer(bytes))
            var (name, count, cpuNs) = ("", 0, Int64(0))
            try reader.enterObject()
            while let member = reader.nextMember() {
                switch member.string {
                case "part": name = try reader.text().string
                case "count": count = Int(try reader.integer())
                case "cpu_ns": cpuNs = try reader.integer()
                default: reader.skip()
                }
            }
            return PartFigure(name: name, count: count, cpuNs: cpuNs)
        }
    }
}

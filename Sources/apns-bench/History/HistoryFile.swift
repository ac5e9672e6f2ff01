import Glibc
import JSON

/// Appends text to a file, which is made where there is none.
func appendLine(_ line: String, to path: String) throws(BenchFailure) {
    guard let stream = fopen(path, "ae") else {
        throw BenchFailure("cannot write \(path): \(String(cString: strerror(errno)))")
    }
    let bytes = Array(line.utf8)
    let written = fwrite(bytes, 1, bytes.count, stream)
    guard fclose(stream) == 0, written == bytes.count else {
        throw BenchFailure("cannot write \(path): \(String(cString: strerror(errno)))")
    }
}

/// What a plot needs of one run in a history.
struct HistoryEntry {
    /// The time and the commit.
    var at = ""
    var commit = ""
    /// Worker to floors.
    var ratio: Double?
    /// CPU of a notification in microseconds, by measurement.
    var cpuUs: [String: Double] = [:]

    /// All runs of a history, in its order.
    ///
    /// - Throws: one line that names the file and the line in it.
    static func all(in path: String) throws(BenchFailure) -> [HistoryEntry] {
        guard let text = contents(of: path) else {
            throw BenchFailure("cannot read \(path): \(String(cString: strerror(errno)))")
        }
        var entries: [HistoryEntry] = []
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
        where !line.isEmpty {
            do {
                entries.append(try HistoryEntry(json: String(line)))
            } catch {
                throw BenchFailure("\(path), line \(index + 1), is no line of apns-bench --history: \(error)")
            }
        }
        return entries
    }

    init(json text: String) throws {
        var text = text
        var entry = HistoryEntry()
        try text.withUTF8 { bytes in
            var reader = try JSONReader(UnsafeRawBufferPointer(bytes))
            try reader.enterObject()
            while let member = reader.nextMember() {
                switch member.string {
                case "at": entry.at = try reader.text().string
                case "commit": if !reader.null() { entry.commit = try reader.text().string }
                case "ratio": entry.ratio = try reader.double()
                case "costs": entry.cpuUs = try Self.costs(&reader)
                default: reader.skip()
                }
            }
        }
        self = entry
    }

    private init() {}

    private static func costs(_ reader: inout JSONReader) throws -> [String: Double] {
        var costs: [String: Double] = [:]
        try reader.enterObject()
        while let row = reader.nextMember()?.string {
            try reader.enterObject()
            while let member = reader.nextMember() {
                if member.string == "cpu_us" { costs[row] = try reader.double() } else { reader.skip() }
            }
        }
        return costs
    }
}

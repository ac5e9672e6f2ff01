import Glibc

/// Lines of a table: the first and the last column to the left, the others to the right.
struct TextTable {
    private var rows: [[String]]

    init(_ heads: [String]) { rows = [heads] }

    mutating func add(_ fields: [String]) { rows.append(fields) }

    /// Each column as wide as its widest field.
    var lines: [String] {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in
            rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
        }
        return rows.map { row in
            var line = ""
            for (column, field) in row.enumerated() {
                let gap = String(repeating: " ", count: widths[column] - field.count)
                if column > 0 { line += "  " }
                line += column == 0 || column == columns - 1 ? field + gap : gap + field
            }
            while line.last == " " { line.removeLast() }
            return line
        }
    }
}

/// A number with so many digits after its point.
func fixed(_ value: Double, _ digits: Int) -> String {
    guard value.isFinite, abs(value) < 1e12 else { return "-" }
    let scale = pow(10, Double(digits))
    let scaled = Int((abs(value) * scale).rounded())
    let sign = value < 0 && scaled != 0 ? "-" : ""
    guard digits > 0 else { return "\(sign)\(scaled)" }
    return "\(sign)\(scaled / Int(scale)).\(padded("\(scaled % Int(scale))", digits))"
}

/// Megabytes of 2^20 bytes.
func megabytes(_ bytes: Int) -> String { fixed(Double(bytes) / 1_048_576, 1) }

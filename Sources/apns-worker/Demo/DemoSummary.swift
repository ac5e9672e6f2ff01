import APNsSimulator

/// What the demo ends with: the three books side by side.
struct DemoSummary {
    private let comparison: DemoBooks.Comparison
    private let books: DemoBooks
    private let tookNs: Int64
    private let totals: Totals

    init(_ comparison: DemoBooks.Comparison, _ books: DemoBooks, tookNs: Int64, totals: Totals) {
        self.comparison = comparison
        self.books = books
        self.tookNs = tookNs
        self.totals = totals
    }

    var text: String {
        var lines = ["", row("", "produced", "simulator", "read back")]
        for line in comparison.lines {
            // Never sent: the simulator is right not to know them.
            let simulated = line.isSent ? grouped(line.simulated) : "-"
            lines.append(row(line.title, grouped(line.produced), simulated, grouped(line.read)))
        }
        let seconds = Double(tookNs) / 1e9
        lines += [
            "",
            "\(grouped(books.settled)) of \(grouped(books.produced)) settled in \(tenths(seconds)) s "
                + "(\(grouped(Int(Double(books.settled) / max(seconds, 0.001))))/s), "
                + "\(grouped(totals.requests)) requests on \(grouped(totals.connections)) connections",
        ]
        if comparison.repeatedInDoubt > 0 {
            lines.append(
                "\(grouped(comparison.repeatedInDoubt)) were accepted more than once after a fault; their results say so "
                    + "(in_doubt)")
        }
        if comparison.agrees {
            lines.append("The books agree.")
        } else {
            lines.append("The books differ in \(grouped(comparison.differences)):")
            lines += comparison.examples.map { "  \($0)" }
        }
        return lines.joined(separator: "\n")
    }

    private func row(_ title: String, _ columns: String...) -> String {
        columns.reduce(pad(title, to: 14, left: false)) { $0 + pad($1, to: 13, left: true) }
    }

    private func pad(_ text: String, to width: Int, left: Bool) -> String {
        let padding = String(repeating: " ", count: max(0, width - text.count))
        return left ? padding + text : text + padding
    }

    /// With one digit behind the point.
    private func tenths(_ number: Double) -> String {
        let tenths = Int((number * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}

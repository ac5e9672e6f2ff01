import APNsSimulator

/// What the demo ends with: the three books side by side.
struct DemoSummary {
    private let comparison: DemoBooks.Comparison
    private let books: DemoBooks
    private let clock: DemoClock
    private let totals: Totals
    private let isWhole: Bool

    /// - Parameter isWhole: false: it was ended before everything could come back.
    init(
        _ comparison: DemoBooks.Comparison, _ books: DemoBooks, _ clock: DemoClock, totals: Totals, isWhole: Bool
    ) {
        self.comparison = comparison
        self.books = books
        self.clock = clock
        self.totals = totals
        self.isWhole = isWhole
    }

    var text: String {
        var lines = ["", row("", "produced", "simulator", "read back")]
        for line in comparison.lines {
            // Never sent: the simulator is right not to know them.
            let simulated = line.isSent ? grouped(line.simulated) : "-"
            lines.append(row(line.title, grouped(line.produced), simulated, grouped(line.read)))
        }
        lines += [""] + times + [requests]
        if comparison.repeatedInDoubt > 0 {
            lines.append(
                "\(grouped(comparison.repeatedInDoubt)) were accepted more than once after a fault; their results say so "
                    + "(in_doubt)")
        }
        if comparison.agrees {
            lines.append("The books agree.")
        } else {
            let lead = isWhole ? "The books" : "It ended before everything had come back, so the books"
            lines.append("\(lead) differ in \(grouped(comparison.differences)):")
            lines += comparison.examples.map { "  \($0)" }
        }
        return lines.joined(separator: "\n")
    }

    /// How long it took. What is answered 429 at first waits for its retry tier at the end, so that the rate is of the
    /// others.
    private var times: [String] {
        guard let startedNs = clock.startedNs else { return ["Ended before the worker had joined its groups."] }
        let retried = books.settledAfterRetry
        let seconds = Double((clock.firstTriesNs ?? clock.endedNs) - startedNs) / 1e9
        let count = clock.firstTriesNs == nil ? books.settled : books.settled - retried
        var lines = [
            "\(grouped(books.settled)) of \(grouped(books.produced)) settled",
            "\(grouped(count)) of them in \(tenths(seconds)) s (\(grouped(Int(Double(count) / max(seconds, 0.001))))/s), "
                + "after \(tenths(Double(startedNs - clock.beganNs) / 1e9)) s in which the worker started and joined its groups",
        ]
        if let firstTriesNs = clock.firstTriesNs, retried > 0 {
            lines.append(
                "\(grouped(retried)) that were to be sent again a second later (429): "
                    + "the last \(tenths(Double(clock.endedNs - firstTriesNs) / 1e9)) s after the others")
        }
        return lines
    }

    private var requests: String {
        let notifications = comparison.lines.filter(\.isSent).reduce(0) { $0 + $1.simulated }
        let more = totals.requests - notifications
        return "\(grouped(totals.requests)) requests on \(grouped(totals.connections)) connections"
            + (more > 0 ? ", \(grouped(more)) of them to send again what was sent before" : "")
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

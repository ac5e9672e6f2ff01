import Glibc
import Worker

/// Shows how far the demo is: a live block on a terminal, a plain line a second otherwise.
struct DemoScreen {
    private let isTerminal = isatty(STDOUT_FILENO) == 1
    private let total: Int
    private let startedNs: Int64
    private var lastNs: Int64 = 0
    private var lastReceived = 0
    private var rate = 0.0
    private var shownLines = 0

    init(total: Int, nowNs: Int64) {
        self.total = total
        startedNs = nowNs
        lastNs = nowNs
    }

    mutating func update(_ books: DemoBooks, _ progress: WorkerProgress, nowNs: Int64) {
        let sinceNs = nowNs - lastNs
        guard sinceNs >= (isTerminal ? 100_000_000 : 1_000_000_000) else { return }
        let latest = Double(books.received - lastReceived) / (Double(sinceNs) / 1e9)
        rate = rate == 0 ? latest : rate * 0.7 + latest * 0.3
        lastNs = nowNs
        lastReceived = books.received
        isTerminal ? draw(books, progress) : line(books, progress, nowNs)
    }

    /// Leaves the last state standing.
    mutating func finish(_ books: DemoBooks, _ progress: WorkerProgress, nowNs: Int64) {
        if isTerminal {
            draw(books, progress)
        } else {
            line(books, progress, nowNs)
        }
    }

    private func line(_ books: DemoBooks, _ progress: WorkerProgress, _ nowNs: Int64) {
        let seconds = Double(nowNs - startedNs) / 1e9
        say(
            "\(fixed(seconds, 1)) s  \(grouped(books.received)) of \(grouped(total)) settled  "
                + "\(grouped(Int(rate)))/s  in flight \(grouped(progress.delivery.inFlight))  "
                + "connections \(progress.connections)  \(outcomes(books))\n")
    }

    private mutating func draw(_ books: DemoBooks, _ progress: WorkerProgress) {
        let width = 40
        let done = min(1, Double(books.received) / Double(max(1, total)))
        let filled = Int(done * Double(width))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
        let lines = [
            "  \(bar) \(padded("\(Int(done * 100))", 3)) %   \(grouped(books.received)) of \(grouped(total)) settled",
            "  rate \(padded(grouped(Int(rate)), 9))/s   in flight \(padded(grouped(progress.delivery.inFlight), 6))"
                + "   connections \(progress.connections)",
            "  \(outcomes(books))",
        ]
        // Back to the block's first line, then each line anew (ECMA-48: CPL, EL).
        var text = shownLines > 0 ? "\u{1B}[\(shownLines)F" : ""
        for line in lines { text += "\u{1B}[K\(line)\n" }
        shownLines = lines.count
        say(text)
    }

    private func outcomes(_ books: DemoBooks) -> String {
        var parts = books.outcomes.sorted { $0.key.rawValue < $1.key.rawValue }.map {
            "\($0.key.rawValue) \(grouped($0.value))"
        }
        if books.deadLetters > 0 { parts.append("dead letters \(grouped(books.deadLetters))") }
        return parts.joined(separator: "  ")
    }
}

/// The three books side by side.
func table(_ rows: [DemoBooks.Row]) -> String {
    var text = "\n  \(padded("", -22))\(padded("produced", 12))\(padded("simulator", 12))\(padded("results", 12))\n"
    for row in rows {
        func cell(_ value: Int?) -> String { padded(value.map(grouped) ?? "", 12) }
        text += "  \(padded(row.name, -22))\(cell(row.produced))\(cell(row.simulator))\(cell(row.results))"
        text += row.agrees ? "\n" : "   <- differ\n"
    }
    return text
}

/// A number with commas between its thousands.
func grouped(_ number: Int) -> String {
    var digits = String(abs(number))
    var groups: [String] = []
    while digits.count > 3 {
        groups.insert(String(digits.suffix(3)), at: 0)
        digits.removeLast(3)
    }
    return (number < 0 ? "-" : "") + ([digits] + groups).joined(separator: ",")
}

/// `decimals` digits after the point, cut.
func fixed(_ value: Double, _ decimals: Int) -> String {
    var scale = 1
    for _ in 0..<decimals { scale *= 10 }
    let scaled = Int(value * Double(scale))
    let fraction = String(scaled % scale)
    return "\(scaled / scale).\(String(repeating: "0", count: decimals - fraction.count))\(fraction)"
}

/// Text in a column: to the right, or to the left where `width` is negative.
func padded(_ text: String, _ width: Int) -> String {
    let blanks = String(repeating: " ", count: max(0, abs(width) - text.count))
    return width < 0 ? text + blanks : blanks + text
}

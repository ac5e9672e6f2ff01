import Glibc

/// `apns-bench plot FILE`: draws a history as SVG on standard output.
enum PlotCommand {
    static let name = "plot"

    static let help = """
        Usage: apns-bench plot FILE

        Draws a history (apns-bench --history FILE) on standard output, as SVG: the worker's ratio to the floors, and what
        a notification costs worker and floors in CPU, run by run.

        """
}

func runPlot(_ arguments: [String]) -> Int32 {
    if arguments.contains("--help") || arguments.contains("-h") {
        say(PlotCommand.help)
        return 0
    }
    guard arguments.count == 1, let path = arguments.first, !path.hasPrefix("-") else {
        complain("apns-bench plot: expected one file, a history (see apns-bench plot --help)")
        return 64
    }
    do {
        let entries = try HistoryEntry.all(in: path)
        guard !entries.isEmpty else { throw BenchFailure("\(path) has no runs") }
        say(plot(entries))
        return 0
    } catch {
        complain("apns-bench plot: \(error)")
        return 1
    }
}

private func plot(_ entries: [HistoryEntry]) -> String {
    let first = entries.first.map { "\($0.at.prefix(10)) \($0.commit)" } ?? ""
    let last = entries.last.map { "\($0.at.prefix(10)) \($0.commit)" } ?? ""
    let ratio = Panel(
        title: "CPU of the whole worker / (send floor + Kafka floor)", top: 30,
        curves: [Curve(name: "ratio", color: "#b5402a", values: entries.map(\.ratio))], limit: CostTable.ratioBudget)
    let names: [(name: String, title: String, color: String)] = [
        ("payload", "worker, payload form", "#b5402a"), ("envelope", "worker, envelope form", "#c98a1b"),
        ("fan-out", "worker, fan-out of 100", "#6b7f2a"), ("h2load", "h2load", "#2a6fb5"),
        ("bare_send", "bare nghttp2", "#5aa0d8"), ("kafka_floor", "bare librdkafka", "#555555"),
    ]
    let cost = Panel(
        title: "CPU of a notification, microseconds", top: 290,
        curves: names.map { name in
            Curve(name: name.title, color: name.color, values: entries.map { $0.cpuUs[name.name] })
        }.filter { $0.values.contains { $0 != nil } }, limit: nil)
    return """
        <svg xmlns="http://www.w3.org/2000/svg" width="860" height="560" viewBox="0 0 860 560" \
        font-family="sans-serif" font-size="12">
        <rect width="860" height="560" fill="#ffffff"/>
        \(ratio.svg)
        \(cost.svg)
        <text x="\(Panel.left)" y="548">\(escaped(first))</text>
        <text x="\(Panel.left + Panel.width)" y="548" text-anchor="end">\(escaped(last))</text>
        </svg>

        """
}

private struct Curve {
    var name: String
    var color: String
    /// By run; `nil`: not measured in it.
    var values: [Double?]
}

/// Curves over the same runs, from zero.
private struct Panel {
    static let left = 60
    static let width = 600
    static let height = 200

    var title: String
    var top: Int
    var curves: [Curve]
    /// A budget to draw.
    var limit: Double?

    private var maximum: Double {
        let largest = (curves.flatMap { $0.values.compactMap { $0 } } + [limit ?? 0]).max() ?? 0
        return largest > 0 ? largest * 1.1 : 1
    }

    private func y(_ value: Double) -> String {
        fixed(Double(top + Self.height) - value / maximum * Double(Self.height), 1)
    }

    private func x(_ run: Int, of runs: Int) -> String {
        fixed(Double(Self.left) + Double(Self.width) * (runs > 1 ? Double(run) / Double(runs - 1) : 0.5), 1)
    }

    var svg: String {
        let right = Self.left + Self.width
        var lines = ["<text x=\"\(Self.left)\" y=\"\(top - 10)\" font-weight=\"bold\">\(escaped(title))</text>"]
        for step in 0...4 {
            let value = maximum * Double(step) / 4
            lines.append(
                "<line x1=\"\(Self.left)\" x2=\"\(right)\" y1=\"\(y(value))\" y2=\"\(y(value))\" stroke=\"#dddddd\"/>"
                    + "<text x=\"\(Self.left - 6)\" y=\"\(y(value))\" text-anchor=\"end\">\(fixed(value, 2))</text>")
        }
        if let limit {
            lines.append(
                "<line x1=\"\(Self.left)\" x2=\"\(right)\" y1=\"\(y(limit))\" y2=\"\(y(limit))\" stroke=\"#2a8f4a\" "
                    + "stroke-dasharray=\"6 4\"/><text x=\"\(right + 10)\" y=\"\(y(limit))\" fill=\"#2a8f4a\">budget "
                    + "\(fixed(limit, 2))</text>")
        }
        for (index, curve) in curves.enumerated() {
            let points = curve.values.enumerated().compactMap { run, value in
                value.map { (x(run, of: curve.values.count), y($0)) }
            }
            let path = points.map { "\($0.0),\($0.1)" }.joined(separator: " ")
            lines.append(
                "<polyline points=\"\(path)\" fill=\"none\" stroke=\"\(curve.color)\" stroke-width=\"2\"/>")
            lines += points.map { "<circle cx=\"\($0.0)\" cy=\"\($0.1)\" r=\"3\" fill=\"\(curve.color)\"/>" }
            if curves.count > 1 {
                lines.append(
                    "<text x=\"\(right + 10)\" y=\"\(top + 14 + 18 * index)\" fill=\"\(curve.color)\">"
                        + "\(escaped(curve.name))</text>")
            }
        }
        return lines.joined(separator: "\n")
    }
}

/// Text between tags.
private func escaped(_ text: String) -> String {
    text.reduce(into: "") { out, character in
        switch character {
        case "&": out += "&amp;"
        case "<": out += "&lt;"
        case ">": out += "&gt;"
        default: out.append(character)
        }
    }
}

/// A plot of values of the last hour as inline SVG, with a legend of the newest values. Unknown values are gaps.
struct HourPlot {
    /// The title and the lines' names, in HTML.
    var title: String
    var lines: [(name: String, points: [RecentHour.Point])]
    var format: (Double) -> String

    /// The size of the plot in units of SVG. A sample is one unit wide.
    private static let (width, height) = (RecentHour.limit, 100)

    func html(nowNs: Int64) -> String {
        // A line that is always 0 is shown only if all are.
        let used = lines.indices.filter { lines[$0].points.contains { $0.value > 0 } }
        let shown = used.isEmpty ? Array(lines.indices.prefix(1)) : used
        let most = lines.flatMap { $0.points.map { $0.value } }.max()
        let paths = shown.map { "<path class=\"line\($0)\" d=\"\(path(lines[$0].points, nowNs, most ?? 0))\"/>" }
        let legend = shown.map { index in
            let newest = lines[index].points.last { nowNs - $0.ns < RecentHour.gapNs }
            let value = newest.map { format($0.value) } ?? "–"
            return "<span class=\"line\(index)\">\(lines[index].name) \(value)</span>"
        }
        return """
            <figure><figcaption>\(title)
            <span class="quiet">\(most.map { "up to \(format($0))" } ?? "no values yet")</span></figcaption>
            <svg viewBox="0 -3 \(Self.width + 2) \(Self.height + 6)" preserveAspectRatio="none" aria-hidden="true">
            \(paths.joined(separator: "\n"))
            </svg><p>\(legend.joined(separator: "\n"))</p></figure>

            """
    }

    /// Returns the path of a line: 0 is at the bottom, and `most` at the top.
    private func path(_ points: [RecentHour.Point], _ nowNs: Int64, _ most: Double) -> String {
        var path = ""
        var lastNs: Int64?
        for (ns, value) in points {
            let x = Self.width - Int((nowNs - ns) / RecentHour.intervalNs)
            let y = Self.height - Int((value / max(most, .leastNormalMagnitude) * Double(Self.height)).rounded())
            let continues = lastNs.map { ns - $0 < RecentHour.gapNs } ?? false
            // A value between two gaps is drawn as a dot: a line of length 0 with round ends.
            path += continues ? "L\(x) \(y)" : "M\(x) \(y)h0"
            lastNs = ns
        }
        return path
    }
}

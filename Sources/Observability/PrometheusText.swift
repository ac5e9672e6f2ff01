/// Metrics as Prometheus reads them: the text exposition format, version 0.0.4.
///
/// A family is begun once, its samples follow it:
/// ```swift
/// var text = PrometheusText()
/// text.family("apns_worker_sends_total", .counter, "Requests handed to connections.")
/// text.sample(["app": "shop"], 12)
/// ```
package struct PrometheusText: Sendable {
    package enum Kind: String, Sendable { case counter, gauge, histogram }

    package typealias Labels = KeyValuePairs<StaticString, String>

    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    package private(set) var text = ""
    private var name = ""

    package init() {}

    /// Begins a metric: `help` is one line for people.
    package mutating func family(_ name: StaticString, _ kind: Kind, _ help: StaticString) {
        self.name = name.description
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
    }

    package mutating func sample(_ labels: Labels, _ value: Int) {
        write(suffix: "", labels, extra: nil, "\(value)")
    }

    package mutating func sample(_ labels: Labels, _ value: Double) {
        write(suffix: "", labels, extra: nil, Self.number(value))
    }

    package mutating func sample(_ value: Int) { sample([:], value) }

    package mutating func sample(_ value: Double) { sample([:], value) }

    /// - Parameters:
    ///   - buckets: upper bounds, ascending, and how many were at or below each and above the one before.
    ///   - above: how many were above the last bound.
    ///   - sum: of all values, in the bounds' unit.
    package mutating func histogram(
        _ labels: Labels = [:], buckets: some Sequence<(bound: Double, count: Int)>, above: Int, sum: Double
    ) {
        var total = 0
        for (bound, count) in buckets {
            total += count
            write(suffix: "_bucket", labels, extra: Self.number(bound), "\(total)")
        }
        total += above
        write(suffix: "_bucket", labels, extra: "+Inf", "\(total)")
        write(suffix: "_sum", labels, extra: nil, Self.number(sum))
        write(suffix: "_count", labels, extra: nil, "\(total)")
    }

    private mutating func write(suffix: String, _ labels: Labels, extra bound: String?, _ value: String) {
        text += name
        text += suffix
        if !labels.isEmpty || bound != nil {
            text += "{"
            var isFirst = true
            for (label, value) in labels {
                if !isFirst { text += "," }
                isFirst = false
                text += "\(label)=\"\(Self.escaped(value))\""
            }
            if let bound { text += "\(isFirst ? "" : ",")le=\"\(bound)\"" }
            text += "}"
        }
        text += " \(value)\n"
    }

    /// A label's value: backslash, quote and line feed are escaped.
    private static func escaped(_ value: String) -> String {
        guard value.utf8.contains(where: { $0 == 0x5C || $0 == 0x22 || $0 == 0x0A }) else { return value }
        var result = ""
        for character in value.unicodeScalars {
            switch character {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.unicodeScalars.append(character)
            }
        }
        return result
    }

    private static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
    }
}

/// Metrics in Prometheus's text exposition format or in OpenMetrics.
package struct PrometheusText: Sendable {
    package enum Format: Sendable {
        /// Version 0.0.4 of Prometheus's format.
        case prometheus
        /// OpenMetrics 1.0.
        case openMetrics

        package var contentType: String {
            switch self {
            case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
            case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
        }
    }

    package enum Kind: String, Sendable { case counter, gauge, histogram }

    package typealias Labels = KeyValuePairs<StaticString, String>

    private let format: Format
    private var lines = ""
    private var name = ""

    package init(_ format: Format = .prometheus) { self.format = format }

    package var text: String { format == .openMetrics ? lines + "# EOF\n" : lines }

    /// Starts a metric family. `help` is one line.
    package mutating func family(_ name: String, _ kind: Kind, _ help: StaticString) {
        self.name = name
        // In OpenMetrics, the name of a counter's family lacks the suffix of its samples.
        let isSuffixed = format == .openMetrics && kind == .counter && name.hasSuffix("_total")
        let family = isSuffixed ? String(name.dropLast("_total".count)) : name
        lines += "# HELP \(family) \(help)\n# TYPE \(family) \(kind.rawValue)\n"
    }

    /// Adds a sample with a finite value.
    package mutating func sample(_ value: Double, _ labels: Labels = [:]) { write(labels, Self.number(value)) }

    /// - Parameters:
    ///   - buckets: The upper bounds of the buckets in ascending order, each with the number of values in its bucket
    ///     (not cumulative).
    ///   - above: The number of values above the last bound.
    ///   - sum: The sum of all values, in the unit of the bounds.
    package mutating func histogram(
        _ labels: Labels = [:], buckets: some Sequence<(bound: Double, count: Int)>, above: Int, sum: Double
    ) {
        var total = 0
        for (bound, count) in buckets {
            total += count
            write(labels, suffix: "_bucket", bound: Self.number(bound), "\(total)")
        }
        total += above
        write(labels, suffix: "_bucket", bound: "+Inf", "\(total)")
        write(labels, suffix: "_sum", Self.number(sum))
        write(labels, suffix: "_count", "\(total)")
    }

    private mutating func write(_ labels: Labels, suffix: String = "", bound: String? = nil, _ value: String) {
        var pairs = labels.map { "\($0)=\"\(Self.escaped($1))\"" }
        if let bound { pairs.append("le=\"\(bound)\"") }
        lines += name + suffix + (pairs.isEmpty ? "" : "{\(pairs.joined(separator: ","))}") + " \(value)\n"
    }

    private static let escapes: [Unicode.Scalar: String] = ["\\": "\\\\", "\"": "\\\"", "\n": "\\n"]

    private static func escaped(_ value: String) -> String {
        value.unicodeScalars.map { escapes[$0] ?? String($0) }.joined()
    }

    private static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
    }
}

internal import Bytes
import Glibc

/// The delay of an answer.
package enum Latency: Hashable, Sendable {
    case fixed(ns: Int64)
    /// A uniform distribution between the two values.
    case uniform(fromNs: Int64, toNs: Int64)
    /// An exponential distribution, truncated at twenty times its mean.
    case exponential(meanNs: Int64)

    package static let zero = Latency.fixed(ns: 0)

    /// Parses `0`, `50ms`, `20ms..80ms` (uniform) or `~50ms` (exponential with that mean).
    package init?(text: String) {
        if text.hasPrefix("~") {
            guard let mean = durationNs(text.dropFirst()), mean > 0 else { return nil }
            self = .exponential(meanNs: mean)
            return
        }
        if let dots = text.firstIndex(of: "."), text[dots...].hasPrefix("..") {
            guard let from = durationNs(text[..<dots]), let to = durationNs(text[dots...].dropFirst(2)), from <= to
            else { return nil }
            self = .uniform(fromNs: from, toNs: to)
            return
        }
        guard let fixed = durationNs(text[...]) else { return nil }
        self = .fixed(ns: fixed)
    }

    package var text: String {
        switch self {
        case .fixed(let ns): durationText(ns)
        case .uniform(let from, let to): "\(durationText(from))..\(durationText(to))"
        case .exponential(let mean): "~\(durationText(mean))"
        }
    }

    @inline(__always)
    func nextNs(using random: inout SplitMix64) -> Int64 {
        switch self {
        case .fixed(let ns): ns
        case .uniform(let from, let to): from + Int64(random.unit() * Double(to - from))
        case .exponential(let mean): Int64(min(-log(1 - random.unit()), 20) * Double(mean))
        }
    }
}

/// The units of durations, in nanoseconds.
private let durationUnits: [(name: String, ns: Int64)] = [
    ("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000),
]

/// Parses `0` or a whole number with a unit (`us`, `ms`, `s`, `m`, `h`) into nanoseconds, up to a day.
func durationNs(_ text: Substring) -> Int64? {
    if text == "0" { return 0 }
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    guard let number = Int64(digits), let unit = durationUnits.first(where: { $0.name == text[digits.endIndex...] }),
        number <= 86_400_000_000_000 / unit.ns
    else { return nil }
    return number * unit.ns
}

func durationText(_ ns: Int64) -> String {
    durationUnits.first { ns >= $0.ns && ns % $0.ns == 0 }.map { "\(ns / $0.ns)\($0.name)" } ?? "0"
}

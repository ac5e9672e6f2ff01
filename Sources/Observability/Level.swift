/// The severity of a log line. The levels are those of swift-log, in ascending order.
package enum Level: String, CaseIterable, Comparable, Sendable {
    case trace, debug, info, notice, warning, error, critical

    var rank: UInt64 { UInt64(Self.allCases.firstIndex(of: self)!) }

    package static func < (left: Level, right: Level) -> Bool { left.rank < right.rank }
}

/// The component that logs a line. Each component can have a separate level (`log.parts`).
package enum Part: String, CaseIterable, Sendable {
    /// The worker's start and stop, signals, and the configuration.
    case worker
    /// Kafka consumers, producers, partitions, commits, and librdkafka's own log.
    case kafka
    /// Request records and notifications.
    case delivery
    /// Connections to APNs and their credentials.
    case apns
    /// The simulator that `simulate` and `demo` run.
    case simulator

    var index: UInt64 { UInt64(Self.allCases.firstIndex(of: self)!) }
}

/// The lowest level at which each part writes log lines.
package struct LevelTable: Hashable, Sendable {
    /// The level ranks of all parts, four bits per part, so that a logger reads all levels in one atomic load.
    private(set) var bits: UInt64 = 0

    init(bits: UInt64) { self.bits = bits }

    package init(_ level: Level = .info, parts: [Part: Level] = [:]) {
        for part in Part.allCases { bits |= (parts[part] ?? level).rank << (part.index * 4) }
    }

    package func writes(_ level: Level, of part: Part) -> Bool {
        level.rank >= (bits >> (part.index * 4)) & 0xF
    }
}

/// The `name=value` pairs of a log line, in the given order.
///
/// The names `time`, `level`, `part`, `event`, `message`, and those that begin with `repeated`, are reserved for the
/// other members of JSON lines.
package struct Fields: ExpressibleByDictionaryLiteral, Sendable {
    package enum Value: Hashable, Sendable {
        /// A string, of which the log line shows at most 1,000 bytes. Control characters are escaped.
        case text(String)
        case integer(Int64)
        /// A count. If the logger omits repetitions of a line, the next written line has the sum of their counts.
        case summed(Int64)
        case boolean(Bool)
    }

    package private(set) var pairs: [(name: StaticString, value: Value)]

    package init(dictionaryLiteral elements: (StaticString, Value)...) {
        pairs = elements.map { (name: $0.0, value: $0.1) }
    }

    /// The fields without countdowns such as `retry_in_ms`, which would be wrong in a line that is written later.
    var withoutCountdowns: Fields {
        var fields = self
        fields.pairs.removeAll { $0.name.description.hasPrefix("retry_in") }
        return fields
    }

    package mutating func append(_ name: StaticString, _ value: Value) {
        pairs.append((name: name, value: value))
    }

    /// Adds the `summed` counts of an earlier, omitted line of the same event.
    mutating func add(_ earlier: Fields) {
        for (index, pair) in pairs.enumerated() {
            guard case .summed(let number) = pair.value,
                case .summed(let before)? = earlier.pairs.first(where: { "\($0.name)" == "\(pair.name)" })?.value
            else { continue }
            pairs[index].value = .summed(number &+ before)
        }
    }
}

extension Fields.Value: ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(booleanLiteral value: Bool) { self = .boolean(value) }

    package static func count(_ value: some BinaryInteger) -> Self { .integer(Int64(clamping: value)) }
    package static func sum(_ value: some BinaryInteger) -> Self { .summed(Int64(clamping: value)) }
}

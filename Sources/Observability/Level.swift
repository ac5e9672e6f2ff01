/// How much a log line matters; swift-log's levels, in their order.
package enum Level: String, CaseIterable, Comparable, Sendable {
    case trace, debug, info, notice, warning, error, critical

    var rank: UInt64 {
        switch self {
        case .trace: 0
        case .debug: 1
        case .info: 2
        case .notice: 3
        case .warning: 4
        case .error: 5
        case .critical: 6
        }
    }

    package static func < (left: Level, right: Level) -> Bool { left.rank < right.rank }
}

/// The part of the worker a line comes from; each can have a level of its own (`log.parts`).
package enum Part: String, CaseIterable, Sendable {
    /// Start, stop, signals, the configuration.
    case worker
    /// Consumers, producers, partitions, commits, and what librdkafka itself says.
    case kafka
    /// What becomes of records and notifications.
    case delivery
    /// Connections to APNs and their credentials.
    case apns
    /// The simulator that `simulate` and `demo` run.
    case simulator

    var index: UInt64 {
        switch self {
        case .worker: 0
        case .kafka: 1
        case .delivery: 2
        case .apns: 3
        case .simulator: 4
        }
    }
}

/// The lowest level that is written, of each part.
package struct LevelTable: Hashable, Sendable {
    /// Four bits a part: its level's rank, so that a logger reads all of it in one atomic load.
    private(set) var bits: UInt64 = 0

    init(bits: UInt64) { self.bits = bits }

    package init(_ level: Level = .info, parts: [Part: Level] = [:]) {
        for part in Part.allCases { bits |= (parts[part] ?? level).rank << (part.index * 4) }
    }

    package func writes(_ level: Level, of part: Part) -> Bool {
        level.rank >= (bits >> (part.index * 4)) & 0xF
    }
}

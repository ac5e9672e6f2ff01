import PushRecords

@testable import Delivery

/// The place of a record, or of a notification in it, in the simulated Kafka.
struct SimulatedPlace: Hashable, CustomStringConvertible {
    var log: Int
    /// The life of the log when the record was written. Each life may use the same offset once.
    var life: Int
    var offset: Int64
    var index: Int32 = 0

    var description: String { "log \(log)\(life > 0 ? ", life \(life)," : "") offset \(offset) index \(index)" }
}

struct SimulatedRecord {
    var offset: Int64
    /// The log's life, as in `SimulatedPlace.life`.
    var life = 0
    var timestampMs: Int64
    var key: [UInt8]?
    var value: [UInt8]?
    var headers: [(name: [UInt8], value: [UInt8])] = []
    /// The number of notifications. A dead letter counts as one.
    var count: Int32 = 1
    /// The places of the original requests, which differ for retry records.
    var originals: [SimulatedPlace]
}

/// One partition of a topic with its group's commit.
struct SimulatedLog {
    struct Commit {
        var offset: Int64
        var metadata: [UInt8]
        var map: CommitMap
        /// The step in which the worker took the commit.
        var takenAt: Int
        /// The log's life, as known to the worker.
        var life: Int
        /// The number of the worker that wrote the commit, or 0 if another client did.
        var writer = 0
        /// The offset at which the log was truncated after the commit, if it was.
        var cutAt: Int64?
    }

    var topic: String
    var partition: Int32
    var role: PartitionRole
    var records: [SimulatedRecord] = []
    var nextOffset: Int64 = 0
    var commit: Commit?
    /// The number of records below the committed offset.
    var committedCount = 0
    var isOwned = false
    /// Whether its metadata was damaged, or the log was truncated, so that the commit's content is lost.
    var wasDamaged = false
    /// Whether the log or its commit was changed.
    var wasReset = false
    /// The number of times that the log was truncated or recreated.
    var life = 0
    /// The first offset that retention has left.
    var start: Int64 = 0
    /// Whether its commits are refused because of a fault of the topic.
    var isDenied = false

    /// Whether everything in the log is committed.
    var isDone: Bool { committedCount == records.count }

    /// Returns the index of the first record at or above an offset.
    func index(from offset: Int64) -> Int {
        var (low, high) = (0, records.count)
        while low < high {
            let middle = (low + high) / 2
            if records[middle].offset < offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// The meaning of a device token in the simulation: how APNs answers.
enum SimulatedRule: String, CaseIterable {
    case accept = "k"
    case unregistered = "u"
    case bad = "r"
    /// The first answer is 429.
    case throttled = "t"
    /// The first two answers are 503.
    case shutdown = "s"
    case failing = "e"
    /// The first answer refuses the credential.
    case credential = "c"
    /// The first answer refuses the credential for this topic.
    case topic = "m"
    /// The first answer is IdleTimeout.
    case idle = "i"
    /// The notification is accepted. Its expiration is 0.
    case nowOrNever = "n"
    /// The connection on which it is sent is lost.
    case poison = "x"
    /// Its stream is refused `refusalCount` times.
    case refused = "f"

    static let refusalCount = 14
    /// Its stream is always refused.
    case endless = "z"
    /// The notification is accepted after a long time.
    case slow = "w"
    /// The token belongs to the other environment.
    case foreign = "o"
    /// The token belongs to the other environment, whose first two answers are 503.
    case foreignShutdown = "p"

    /// Whether the notification may be forwarded to the other environment.
    var isForeign: Bool { self == .foreign || self == .foreignShutdown || self == .bad }

    /// Returns the answer to a send after `processed` earlier ones.
    ///
    /// - Parameter isOther: whether the other environment answers.
    func answer(processed: Int, isOther: Bool) -> (status: UInt16, reason: ReasonCode) {
        switch self {
        case .foreign: isOther ? (200, .none) : (400, .badDeviceToken)
        case .foreignShutdown:
            !isOther ? (400, .badDeviceToken) : processed < 3 ? (503, .shutdown) : (200, .none)
        case .accept, .nowOrNever, .poison, .refused, .endless, .slow: (200, .none)
        case .unregistered: (410, .unregistered)
        case .bad: (400, .badDeviceToken)
        case .throttled: processed == 0 ? (429, .tooManyRequests) : (200, .none)
        case .shutdown: processed < 2 ? (503, .shutdown) : (200, .none)
        case .failing: (500, .internalServerError)
        case .credential: processed == 0 ? (403, .invalidProviderToken) : (200, .none)
        case .topic: processed == 0 ? (403, .topicMismatch) : (200, .none)
        case .idle: processed == 0 ? (400, .idleTimeout) : (200, .none)
        }
    }

    /// Returns the answer of a gateway of the binary protocol to a send after `processed` earlier ones.
    func gatewayAnswer(processed: Int) -> (status: UInt16, reason: ReasonCode) {
        switch self {
        case .bad, .foreign, .foreignShutdown: (8, .badDeviceToken)
        case .failing: (1, .none)
        case .throttled where processed == 0: (1, .none)
        case .shutdown where processed < 2: (255, .none)
        default: (200, .none)
        }
    }

    /// Whether a gateway can give these answers.
    var isOfGateway: Bool {
        switch self {
        case .accept, .bad, .throttled, .shutdown, .failing, .nowOrNever, .poison, .foreign, .foreignShutdown: true
        case .unregistered, .credential, .topic, .idle, .refused, .endless, .slow: false
        }
    }

    var outcome: Outcome {
        switch self {
        case .accept, .throttled, .shutdown, .credential, .topic, .idle, .nowOrNever, .refused, .slow, .foreign,
            .foreignShutdown:
            .accepted
        case .unregistered: .unregistered
        case .bad: .rejected
        case .failing, .poison, .endless: .abandoned
        }
    }
}

/// The true state of one notification.
struct SimulatedBook {
    /// The rule, or `nil` if the token is invalid.
    var rule: SimulatedRule?
    /// The name of its app.
    var app = ""
    /// The earliest time at which any worker may send it, or 0 for at once.
    var notBeforeMs: Int64 = 0
    var isDeadLetter = false
    /// The number of sends that APNs processed, and of those that it delivered.
    var processed = 0
    var delivered = 0
    /// The number of sends that APNs may have processed without an answer to a surviving worker.
    var doubts = 0
    var results: [(outcome: Outcome, inDoubt: Int, attempts: Int)] = []
    var deadTokens = 0
    /// The number of refused streams, as its rule requires.
    var refusals = 0
    var countedAsAccepted = 0
    /// Whether its record disappeared before all of it was settled.
    var isGone = false
    /// Whether one of its records disappeared after a send. A later owner may not know of that send.
    var isDoubtGone = false
    /// Whether a log with one of its records was truncated. Its records are then read again even if they were settled.
    var isReadAgain = false
    /// Whether a gateway discarded it and its app does not send such notifications again.
    var isDiscarded = false
}

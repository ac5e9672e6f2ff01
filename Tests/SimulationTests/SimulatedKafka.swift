import PushRecords

@testable import Delivery

/// A record, or a notification in it, by its place in the simulated Kafka.
struct SimulatedPlace: Hashable, CustomStringConvertible {
    var log: Int
    /// Of the log when the record was written: an offset may be used once in each.
    var life: Int
    var offset: Int64
    var index: Int32 = 0

    var description: String { "log \(log)\(life > 0 ? ", life \(life)," : "") offset \(offset) index \(index)" }
}

struct SimulatedRecord {
    var offset: Int64
    /// `SimulatedPlace.life`.
    var life = 0
    var timestampMs: Int64
    var key: [UInt8]?
    var value: [UInt8]?
    var headers: [(name: [UInt8], value: [UInt8])] = []
    /// One for each notification; a dead letter counts as one.
    var count: Int32 = 1
    /// What was asked for first: of a retry record its original.
    var originals: [SimulatedPlace]
}

/// One partition of a topic, with what its group committed.
struct SimulatedLog {
    struct Commit {
        var offset: Int64
        var metadata: [UInt8]
        var map: CommitMap
        /// The step in which the worker took it.
        var takenAt: Int
        /// The log's, as the worker knew it.
        var life: Int
        /// Number of the worker that wrote it; 0: none of them.
        var writer = 0
        /// The log was cut there since.
        var cutAt: Int64?
    }

    var topic: String
    var partition: Int32
    var role: PartitionRole
    var records: [SimulatedRecord] = []
    var nextOffset: Int64 = 0
    var commit: Commit?
    /// Records below the committed offset.
    var committedCount = 0
    var isOwned = false
    /// Its metadata came back as something else, or it was cut: what it said is forgotten.
    var wasDamaged = false
    /// It was changed, or what was committed for it was.
    var wasReset = false
    /// Counts how often it was cut, or made anew.
    var life = 0
    /// Retention took what is below.
    var start: Int64 = 0
    /// Its commits are refused, because of what is wrong with the topic.
    var isDenied = false

    /// Everything in it is committed.
    var isDone: Bool { committedCount == records.count }

    /// The first record at an offset or above.
    func index(from offset: Int64) -> Int {
        var (low, high) = (0, records.count)
        while low < high {
            let middle = (low + high) / 2
            if records[middle].offset < offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// What a device token of the simulation stands for: how APNs answers.
enum SimulatedRule: String, CaseIterable {
    case accept = "k"
    case unregistered = "u"
    case bad = "r"
    /// 429 first.
    case throttled = "t"
    /// 503 twice.
    case shutdown = "s"
    case failing = "e"
    /// Our credential is refused first.
    case credential = "c"
    /// It is refused for this topic first.
    case topic = "m"
    /// IdleTimeout first.
    case idle = "i"
    /// Accepted; expiration 0.
    case nowOrNever = "n"
    /// Its connection dies under it.
    case poison = "x"
    /// Its stream is refused, `refusalCount` times.
    case refused = "f"

    static let refusalCount = 14
    /// Its stream is refused, always.
    case endless = "z"
    /// Accepted, after a long time.
    case slow = "w"
    /// A token of the other environment.
    case foreign = "o"
    /// The same, with 503 there first, twice.
    case foreignShutdown = "p"

    /// What may be sent to the other environment.
    var isForeign: Bool { self == .foreign || self == .foreignShutdown || self == .bad }

    /// The answer to the try after `processed` others.
    ///
    /// - Parameter isOther: the other environment is asked.
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

    /// As `answer`, of a gateway of the binary protocol.
    func gatewayAnswer(processed: Int) -> (status: UInt16, reason: ReasonCode) {
        switch self {
        case .bad, .foreign, .foreignShutdown: (8, .badDeviceToken)
        case .failing: (1, .none)
        case .throttled where processed == 0: (1, .none)
        case .shutdown where processed < 2: (255, .none)
        default: (200, .none)
        }
    }

    /// Whether a gateway can answer so.
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

/// The books of one notification as they are in truth.
struct SimulatedBook {
    /// `nil`: its token is no token.
    var rule: SimulatedRule?
    /// Name of its app.
    var app = ""
    /// Not to be sent before, by whoever sends it; 0: at once.
    var notBeforeMs: Int64 = 0
    var isDeadLetter = false
    /// Tries that APNs processed, and of these, the ones it delivered.
    var processed = 0
    var delivered = 0
    /// Sends that APNs may have processed and that were not answered to a worker that lived on.
    var doubts = 0
    var results: [(outcome: Outcome, inDoubt: Int, attempts: Int)] = []
    var deadTokens = 0
    /// Streams of it that were refused, by its rule.
    var refusals = 0
    var countedAsAccepted = 0
    /// Its record was gone before all of it was settled.
    var isGone = false
    /// So was one of its records after it was sent: a later owner need not have heard of that.
    var isDoubtGone = false
    /// A log that has a record of it was cut: that is read again, also where it was done with.
    var isReadAgain = false
    /// A gateway discarded it, and its app does not have such ones sent again.
    var isDiscarded = false
}

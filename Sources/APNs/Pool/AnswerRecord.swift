/// What was answered on a connection so far: a value machine; the connection says what came.
struct AnswerRecord {
    /// Something was answered that was no fault of the connection.
    private(set) var isAnswered = false
    /// Streams refused before that.
    private var refusals = 0
    /// When the last response came (monotonic).
    private(set) var respondedNs: Int64 = 0
    /// When the last response came that was no server error (5xx).
    private(set) var goodNs: Int64 = 0
    /// Server errors since.
    private(set) var errorStreak = ErrorStreak()
    /// A response that was no server error came in this read.
    private var hasGood = false
    /// Responses with a status came since `takeResponses`.
    private var hasResponses = false
    /// `Window.answers` at the end of the last read.
    private var seenAnswers: UInt32 = 0

    mutating func responded() { hasResponses = true }

    mutating func takeResponses() -> Bool {
        defer { hasResponses = false }
        return hasResponses
    }

    mutating func wasGood() { hasGood = true }

    /// Records a response that was no fault of the connection, and returns whether it is the first.
    mutating func answered() -> Bool {
        defer { isAnswered = true }
        return !isAnswered
    }

    /// Records a server error, and returns whether it is the one that makes the streak long.
    mutating func failed(nowNs: Int64) -> Bool {
        errorStreak.failed(nowNs: nowNs)
        return errorStreak.count == ErrorStreak.limit
    }

    /// Counts a refused stream; returns the count, or `nil` if the peer answered something before.
    mutating func refused() -> Int? {
        guard !isAnswered else { return nil }
        refusals += 1
        return refusals
    }

    /// Ends a read; returns whether it brought good responses on a connection that was answered before.
    mutating func readEnded(answers: UInt32, nowNs: Int64) -> Bool {
        guard answers != seenAnswers else { return false }
        seenAnswers = answers
        respondedNs = nowNs
        guard hasGood else { return false }
        hasGood = false
        goodNs = nowNs
        errorStreak.count = 0
        return isAnswered
    }
}

/// Server errors in a row (5xx, or answers hardly from APNs: `AnswerOrigin.isForeign`) on one connection.
///
/// Providers report connections that answer every request with 500 or 503 until they are made anew, after hours of
/// idleness most of all (github.com/jchambers/pushy/issues/408, github.com/node-apn/node-apn/issues/463). Apple
/// documents no such thing and no numbers.
struct ErrorStreak: Equatable {
    /// Answers in a row that make it long.
    static let limit = 5
    /// How long it must last, in nanoseconds. What APNs mends within it was not the connection's fault.
    static let spanNs: Int64 = 5_000_000_000

    fileprivate(set) var count = 0
    private(set) var beganNs: Int64 = 0

    mutating func failed(nowNs: Int64) {
        if count == 0 { beganNs = nowNs }
        count += 1
    }

    var isLong: Bool { count >= Self.limit }
}

/// Decides which connection of an app is replaced because of its errors.
struct ErrorRetirement {
    /// Between two of them while other connections answer well.
    static let pauseNs: Int64 = 30_000_000_000
    /// Between two of them while none does: a new connection shows whether it was the connection, and when it was not,
    /// the next would not either.
    static let trialPauseNs: Int64 = 900_000_000_000

    private let spanNs: Int64
    private var lastNs: Int64?

    init(spanNs: Int64 = ErrorStreak.spanNs) { self.spanNs = spanNs }

    /// Returns whether to replace a connection with that streak now, and notes that it is replaced. `isAnotherGood`:
    /// another connection answered something else since the streak began.
    mutating func retires(_ streak: ErrorStreak, isAnotherGood: Bool, nowNs: Int64) -> Bool {
        guard streak.isLong, nowNs - streak.beganNs >= spanNs else { return false }
        if let lastNs, nowNs - lastNs < (isAnotherGood ? Self.pauseNs : Self.trialPauseNs) { return false }
        lastNs = nowNs
        return true
    }

    mutating func replaced() { lastNs = nil }
}

/// What was answered on a connection so far: a value machine; the connection says what came.
struct AnswerRecord {
    /// Something was answered that was no fault of the connection.
    private(set) var isAnswered = false
    /// Streams refused before that.
    private var refusals = 0
    /// When the last response came (monotonic).
    private(set) var respondedNs: Int64 = 0
    /// When the last one came that was no server error (5xx).
    private(set) var goodNs: Int64 = 0
    /// Server errors since.
    private(set) var errorStreak = ErrorStreak()
    /// One that was no server error came in this read.
    private var hasGood = false
    /// Responses with a status came since `takeResponses`.
    private var hasResponses = false
    /// As the window counted them at the end of the last read.
    private var seenAnswers: UInt32 = 0

    /// A response with a status came.
    @inline(__always)
    mutating func responded() { hasResponses = true }

    /// Whether some came since the last call.
    @inline(__always)
    mutating func takeResponses() -> Bool {
        defer { hasResponses = false }
        return hasResponses
    }

    /// A response was no server error.
    @inline(__always)
    mutating func wasGood() { hasGood = true }

    /// A response was no fault of the connection; true: the first of them.
    @inline(__always)
    mutating func answered() -> Bool {
        defer { isAnswered = true }
        return !isAnswered
    }

    /// A response was a server error; true: it is the one that makes the streak long.
    mutating func failed(nowNs: Int64) -> Bool {
        errorStreak.failed(nowNs: nowNs)
        return errorStreak.count == ErrorStreak.limit
    }

    /// The peer refused a stream.
    ///
    /// - Returns: how many it refused, or `nil` if it answered something before.
    mutating func refused() -> Int? {
        guard !isAnswered else { return nil }
        refusals += 1
        return refusals
    }

    /// A read is over.
    ///
    /// - Parameter answers: as the window counts them by now.
    /// - Returns: whether it brought responses that were no server errors, on a connection that was answered.
    @inline(__always)
    mutating func readEnded(answers: UInt32, nowNs: Int64) -> Bool {
        guard answers != seenAnswers else { return false }
        seenAnswers = answers
        respondedNs = nowNs
        guard hasGood else { return false }
        hasGood = false
        goodNs = nowNs
        errorStreak.answered()
        return isAnswered
    }
}

/// Whether a connection answers nothing but server errors (5xx, or what is hardly APNs': `AnswerOrigin.isForeign`)
/// while APNs is well otherwise: value machines; the connection and the transport say what they find.
///
/// Providers report connections that answer every request with 500 or 503 until they are made anew, after hours of
/// idleness most of all (github.com/jchambers/pushy/issues/408, github.com/node-apn/node-apn/issues/463). Apple
/// documents no such thing and no numbers.
struct ErrorStreak: Sendable, Equatable {
    /// Answers in a row.
    static let limit = 5
    /// From the first of them to now, in nanoseconds. What APNs mends within it was not the connection's fault.
    static let spanNs: Int64 = 5_000_000_000

    private(set) var count = 0
    /// When the first of them came.
    private(set) var beganNs: Int64 = 0

    mutating func failed(nowNs: Int64) {
        if count == 0 { beganNs = nowNs }
        count += 1
    }

    /// Something else was answered.
    mutating func answered() { count = 0 }

    var isLong: Bool { count >= Self.limit }
}

/// Which connection of an app is to be replaced because of its errors.
struct ErrorRetirement: Sendable, Equatable {
    /// Between two of them while other connections answer well.
    static let pauseNs: Int64 = 30_000_000_000
    /// While none does: a new connection shows whether it was the connection, and when it was not, the next would not
    /// either.
    static let trialPauseNs: Int64 = 900_000_000_000

    private let spanNs: Int64
    private var lastNs: Int64?

    init(spanNs: Int64 = ErrorStreak.spanNs) { self.spanNs = spanNs }

    /// Whether a connection with that streak is to be replaced now; true counts as done.
    ///
    /// - Parameter isAnotherGood: another connection answered something else since the streak began.
    mutating func retires(_ streak: ErrorStreak, isAnotherGood: Bool, nowNs: Int64) -> Bool {
        guard streak.isLong, nowNs - streak.beganNs >= spanNs else { return false }
        if let lastNs, nowNs - lastNs < (isAnotherGood ? Self.pauseNs : Self.trialPauseNs) { return false }
        lastNs = nowNs
        return true
    }

    /// Connections are made with another credential, host or proxy from now on.
    mutating func replaced() { lastNs = nil }
}

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

    /// The peer refused a stream; true: it refused `limit` of them, or more, and answered nothing.
    mutating func refused(limit: Int) -> Bool {
        guard !isAnswered else { return false }
        refusals += 1
        return refusals >= limit
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

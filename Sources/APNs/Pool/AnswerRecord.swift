/// What was answered on a connection so far: a value machine; the connection says what came.
struct AnswerRecord {
    /// Something was answered that was no fault of the connection.
    private(set) var isAnswered = false
    /// Streams refused before that.
    private var refusals = 0
    /// When the last response came (monotonic).
    private(set) var respondedNs: Int64 = 0
    /// Server errors in a row (5xx, or answers hardly from APNs: `AnswerOrigin.isForeign`), and when the first one
    /// came.
    ///
    /// Providers report connections that answer every request with 500 or 503 until they are made anew, after hours of
    /// idleness most of all (github.com/jchambers/pushy/issues/408, github.com/node-apn/node-apn/issues/463). Apple
    /// documents no such thing and no numbers.
    private(set) var errors = 0
    private(set) var erringSinceNs: Int64 = 0
    /// A response that was no server error came in this read.
    private var hasGood = false
    /// `Window.answers` at the end of the last read.
    private var seenAnswers: UInt32 = 0

    /// Server errors in a row that are too many.
    private static let errorsLimit = 5

    mutating func wasGood() { hasGood = true }

    /// Records a response that was no fault of the connection, and returns whether it is the first.
    mutating func answered() -> Bool {
        defer { isAnswered = true }
        return !isAnswered
    }

    mutating func failed(nowNs: Int64) {
        if errors == 0 { erringSinceNs = nowNs }
        errors += 1
    }

    var isErring: Bool { errors >= Self.errorsLimit }

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
        errors = 0
        return isAnswered
    }
}

/// The answers of APNs on one connection so far.
struct AnswerRecord {
    /// Whether any response arrived that did not require a new connection.
    private(set) var isAnswered = false
    /// The number of streams that the peer refused before its first answer.
    private var refusals = 0
    /// The monotonic time of the last read in which the peer answered or ended a stream.
    var respondedNs: Int64 = 0
    /// The number of consecutive server errors: 5xx, or answers that are probably not from APNs
    /// (`AnswerOrigin.isForeign`).
    ///
    /// Providers report connections that answer every request with 500 or 503 until they are replaced, mostly after
    /// hours without requests (github.com/jchambers/pushy/issues/408, github.com/node-apn/node-apn/issues/463). Apple
    /// does not document this.
    private(set) var errors = 0
    private(set) var erringSinceNs: Int64 = 0

    /// The number of consecutive server errors at which the connection counts as returning only server errors
    /// (`isErring`).
    private static let errorsLimit = 5

    /// Records a response that did not require a new connection, and returns whether it is the first such response.
    mutating func answered() -> Bool {
        defer { isAnswered = true }
        return !isAnswered
    }

    /// Records a response that was not a server error.
    mutating func succeeded() { errors = 0 }

    mutating func failed(nowNs: Int64) {
        if errors == 0 { erringSinceNs = nowNs }
        errors += 1
    }

    var isErring: Bool { errors >= Self.errorsLimit }

    /// Counts a refused stream. Returns the count, or `nil` if the peer has answered a request before.
    mutating func refused() -> Int? {
        guard !isAnswered else { return nil }
        refusals += 1
        return refusals
    }
}

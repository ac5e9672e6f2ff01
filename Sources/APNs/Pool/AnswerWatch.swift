internal import HTTP2

/// Detects a host that does not answer, whatever the state of its connections. An answer is a response with a status.
///
/// A host counts as not answering in these two cases, until the next answer:
/// - It is silent: a request has been in flight for `limitNs` without an answer. If no request is in flight, this
///   state lasts for `pauseNs`.
/// - It resets streams or ends them without a status: three in a row, the first at least `limitNs` ago. If no request
///   is in flight, this state lasts for `endsPauseNs`, because the notifications may return from a retry tier within
///   this time.
struct AnswerWatch: Sendable, Equatable {
    /// The number of consecutive streams without an answer after which a host that ends them counts as not answering.
    static let endsLimit = 3
    /// The idle time after which the wait for an answer starts over. Resends are sent sooner, so they continue the
    /// wait.
    static let pauseNs: Int64 = 5_000_000_000
    /// The idle time after which ended streams are forgotten. Notifications usually return from a retry tier sooner.
    static let endsPauseNs: Int64 = 1_200_000_000_000

    private let limitNs: Int64
    /// When the wait for an answer began (monotonic). Short pauses without requests do not end the wait.
    private var askedNs: Int64?
    /// The time at which the last request completed, or `nil` while a request is in flight.
    private var idleNs: Int64? = 0
    private var ends = 0
    private var endedNs: Int64 = 0
    private var code = ErrorCode.noError
    private(set) var isUnanswering = false

    init(limitNs: Int64) { self.limitNs = limitNs }

    private var hasEnded: Bool { ends >= Self.endsLimit }

    /// The error code of the stream with which the host reached `endsLimit`, or `nil` before that.
    var endCode: ErrorCode? { hasEnded ? code : nil }

    /// The monotonic time at which `update` may change the state, or `Int64.max` if only an event can change it.
    var deadlineNs: Int64 {
        var next = Int64.max
        if !isUnanswering {
            if let askedNs, idleNs == nil { next = askedNs + limitNs }
            if hasEnded { next = min(next, endedNs + limitNs) }
        } else if let idleNs {
            next = idleNs + (hasEnded ? Self.endsPauseNs : Self.pauseNs)
        }
        return next
    }

    mutating func answered() {
        askedNs = nil
        ends = 0
        isUnanswering = false
    }

    /// Records that the peer ended a stream without an answer, while the connection stays open.
    mutating func ended(_ code: ErrorCode, nowNs: Int64) {
        guard !hasEnded else { return }
        if ends == 0 { endedNs = nowNs }
        ends += 1
        self.code = code
    }

    /// Updates the state at the end of a turn. `isAsked` is whether a request waits for the host.
    mutating func update(isAsked: Bool, nowNs: Int64) {
        if let idleNs {
            if nowNs - idleNs >= Self.pauseNs { askedNs = nil }
            if nowNs - idleNs >= Self.endsPauseNs { ends = 0 }
        }
        if isAsked {
            idleNs = nil
            askedNs = askedNs ?? nowNs
        } else if idleNs == nil {
            idleNs = nowNs
        }
        if isUnanswering {
            isUnanswering = askedNs != nil || hasEnded
        } else {
            isUnanswering = deadlineNs <= nowNs
        }
    }
}

internal import HTTP2

/// Whether an app's host answers at all, whatever its connections look like: a value machine.
///
/// An answer is a response with a status. A host is unanswering once something has been in flight for `limitNs` without
/// an answer (it is silent), or once it ended three streams in a row without one, the first of them `limitNs` ago (it
/// resets them, or sends no status). The next answer ends both. An idle host is never unanswering, but for a while
/// after ended streams: what was on them may wait in a tier meanwhile.
struct AnswerWatch: Sendable, Equatable {
    /// Streams that the peer ended, with no answer in between.
    static let endsLimit = 3
    /// What is in flight after such a pause is asked anew. What is tried again comes sooner.
    static let pauseNs: Int64 = 5_000_000_000
    /// After such a pause ended streams show nothing any more. What waits in a tier mostly comes sooner.
    static let endsPauseNs: Int64 = 1_200_000_000_000

    private let limitNs: Int64
    /// Since when something is in flight and nothing is answered, short pauses included.
    private var askedNs: Int64?
    /// Since when nothing is in flight, or `nil` while something is.
    private var idleNs: Int64? = 0
    private var ends = 0
    private var endedNs: Int64 = 0
    private var code = ErrorCode.noError
    private(set) var isUnanswering = false

    init(limitNs: Int64) { self.limitNs = limitNs }

    private var hasEnded: Bool { ends >= Self.endsLimit }

    /// How the peer ended the stream that made them enough, or `nil` while they are not.
    var endCode: ErrorCode? { hasEnded ? code : nil }

    /// When `update` may find something else than now, or `Int64.max`.
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

    /// The peer ended a stream without an answer, while its connection goes on.
    mutating func ended(_ code: ErrorCode, nowNs: Int64) {
        guard !hasEnded else { return }
        if ends == 0 { endedNs = nowNs }
        ends += 1
        self.code = code
    }

    /// Call it at the end of a turn. `isAsked`: something is in flight.
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

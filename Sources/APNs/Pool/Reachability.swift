/// Whether an app's host is of any use, by how its connections end: a value machine.
///
/// A host that cannot be connected to is out of reach at once. One that takes connections and answers nothing on them
/// is out of reach after three such connections in a row. Then only an answer shows the contrary, and one request at a
/// time is handed over. One whose connections all allow no stream is out of reach until one allows some. One that reads
/// no further is out of reach at once.
package struct Reachability: Sendable, Equatable {
    static let endsLimit = 3
    /// Refused streams in a row, before any answer, at which a connection is given up.
    static let refusalsLimit = 32
    /// A connection that lived this long without a request was idle, which is no fault.
    static let shortLifeNs: Int64 = 30_000_000_000

    /// As far as connecting and answers show.
    private var isOfUse: Bool?
    /// When a connection was last ready, all that were ready allowed no stream (SETTINGS_MAX_CONCURRENT_STREAMS 0).
    private(set) var allowsNoStream = false
    /// Connections in a row that ended without an answer.
    private(set) var endsInRow = 0
    /// The peer of one of them read no further.
    private var isUnread = false

    /// `nil` until the first connection has been tried to its end.
    package var isReachable: Bool? { allowsNoStream ? false : isOfUse }

    /// Connecting is not enough: it takes an answer.
    package var isOnProbation: Bool { endsInRow >= Self.endsLimit }

    /// Why the host is on probation, for people. `last`: how the last connection ended.
    func why(last: String) -> String {
        isUnread ? last : "\(Self.endsLimit) connections in a row ended without an answer, the last one: \(last)"
    }

    package mutating func connected() { if !isOnProbation { isOfUse = true } }

    mutating func failed(isAnotherReady: Bool) { if !isAnotherReady { isOfUse = false } }

    package mutating func answered() {
        replaced()
        isOfUse = true
    }

    /// Some connections are ready; whether one of them allows a stream. Requests on them are answered all the same.
    mutating func allow(streams: Bool) { allowsNoStream = !streams }

    /// A ready connection ended, and not by this side. `wasAnswered`: a request on it got an answer that did not ask
    /// for another connection.
    package mutating func ended(wasAnswered: Bool, wasAsked: Bool, lifeNs: Int64) {
        guard !wasAnswered, wasAsked || lifeNs < Self.shortLifeNs else { return }
        endsInRow += endsInRow < Self.endsLimit ? 1 : 0
        if isOnProbation { isOfUse = false }
    }

    /// A connection that was ready was given up, as its peer read no further.
    package mutating func endedUnread() {
        endsInRow = Self.endsLimit
        isUnread = true
        isOfUse = false
    }

    /// Forgets the ends in a row, since another credential, host or proxy is used from now on.
    mutating func replaced() {
        endsInRow = 0
        isUnread = false
    }
}

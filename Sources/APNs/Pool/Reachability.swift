/// Whether an app's host works, judged by how its connections end.
///
/// - A connection attempt fails while no other connection is ready: the host is unreachable until one is ready.
/// - Three connections in a row end without an answer, or the host stops reading from a connection: the host is
///   unreachable and on probation. The pool hands over at most one request at a time until an answer arrives.
/// - The connections allow no streams: the host is unreachable until one of them allows some.
package struct Reachability: Sendable, Equatable {
    static let endsLimit = 3
    /// The number of refused streams at which a connection without any answer is retired.
    static let refusalsLimit = 32
    /// The age from which a connection that ends without any request counts as idle and not as failed.
    static let shortLifeNs: Int64 = 30_000_000_000

    /// Whether the host works, according to its connections and answers. `allowsNoStream` is not considered.
    private var isOfUse: Bool?
    /// Whether no ready connection allowed a stream (SETTINGS_MAX_CONCURRENT_STREAMS 0) when a connection was last
    /// ready. The host may still answer the requests in flight.
    var allowsNoStream = false
    /// The number of consecutive connections that ended without an answer, up to `endsLimit`.
    private(set) var endsInRow = 0
    /// Whether the peer of one of the last `endsInRow` connections stopped reading.
    private var isUnread = false

    /// Whether the host is reachable, or `nil` until the first connection has succeeded or failed.
    package var isReachable: Bool? { allowsNoStream ? false : isOfUse }

    /// Whether only an answer, and not a new connection, makes the host reachable again.
    package var isOnProbation: Bool { endsInRow >= Self.endsLimit }

    /// Returns why the host is on probation. `last` is how the last connection ended.
    func why(last: String) -> String {
        isUnread ? last : "\(Self.endsLimit) consecutive connections ended without an answer, the last one: \(last)"
    }

    package mutating func connected() { if !isOnProbation { isOfUse = true } }

    mutating func failed(isAnotherReady: Bool) { if !isAnotherReady { isOfUse = false } }

    package mutating func answered() {
        replaced()
        isOfUse = true
    }

    /// Records the end of a ready connection. `wasAnswered` is whether a request on it got an answer that did not
    /// require a new connection. `wasAsked` is whether any request was sent on it.
    package mutating func ended(wasAnswered: Bool, wasAsked: Bool, lifeNs: Int64) {
        guard !wasAnswered, wasAsked || lifeNs < Self.shortLifeNs else { return }
        endsInRow += endsInRow < Self.endsLimit ? 1 : 0
        if isOnProbation { isOfUse = false }
    }

    /// Records that a ready connection was given up because its peer stopped reading.
    package mutating func endedUnread() {
        endsInRow = Self.endsLimit
        isUnread = true
        isOfUse = false
    }

    /// Forgets the failed connections, after an answer or a change of the credential, host or proxy.
    mutating func replaced() {
        endsInRow = 0
        isUnread = false
    }
}

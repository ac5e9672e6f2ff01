/// The connections there are, and which of them have to go, so that no client keeps another from being answered.
/// Decides only; no clock, no I/O. Times are monotonic.
///
/// Whoever has not sent its whole request in time goes, however it trickles. Beyond the limit the one goes that has
/// waited for the longest, of the address with the most connections.
struct ClientTable {
    private struct Client {
        /// Who it is; the port is no part of it.
        let address: [UInt8]
        /// When it was opened, or its last answer was over.
        var sinceNs: Int64
        var isAnswered = false
    }

    let limit: Int
    /// How long a request may take to arrive, its body included.
    let requestNs: Int64
    /// By their sockets. One that has to go is not among them any more.
    private var clients: [Int32: Client] = [:]

    init(limit: Int, requestNs: Int64) {
        self.limit = limit
        self.requestNs = requestNs
    }

    var count: Int { clients.count }

    /// A connection came; returns the one that has to go for it.
    mutating func opened(_ socket: Int32, from address: [UInt8], nowNs: Int64) -> Int32? {
        clients[socket] = Client(address: address, sinceNs: nowNs)
        guard clients.count > limit else { return nil }
        var counts: [[UInt8]: Int] = [:]
        for client in clients.values { counts[client.address, default: 0] += 1 }
        let most = counts.values.max() ?? 0
        let victim = clients.filter { counts[$0.value.address] == most && $0.key != socket }
            .min { left, right in
                // Who waits for an answer has sent something that is worth one.
                if left.value.isAnswered != right.value.isAnswered { return !left.value.isAnswered }
                return (left.value.sinceNs, left.key) < (right.value.sinceNs, right.key)
            }
        // It is the only one.
        let gone = victim?.key ?? socket
        clients[gone] = nil
        return gone
    }

    /// Its request has arrived.
    mutating func requestArrived(_ socket: Int32) { clients[socket]?.isAnswered = true }

    /// Its answer is over; another request may follow.
    mutating func answerOver(_ socket: Int32, nowNs: Int64) {
        clients[socket]?.isAnswered = false
        clients[socket]?.sinceNs = nowNs
    }

    mutating func closed(_ socket: Int32) { clients[socket] = nil }

    /// Those whose requests take too long; they have to go.
    mutating func takeOverdue(nowNs: Int64) -> [Int32] {
        let overdue = clients.filter { !$0.value.isAnswered && nowNs - $0.value.sinceNs >= requestNs }.keys
        for socket in overdue { clients[socket] = nil }
        return Array(overdue)
    }

    /// When the next one is overdue.
    var nextDeadlineNs: Int64? {
        clients.values.lazy.filter { !$0.isAnswered }.map(\.sinceNs).min().map { $0 + requestNs }
    }
}

/// Why a connection ends, as its peer and we say: for people.
struct Farewell {
    /// What the peer said, or did, that ended it: better than that it is closed.
    private(set) var lastWords: String?
    /// Why we gave the connection up first, when we did.
    private var fault: String?
    /// We closed it, with nothing on it.
    private var isExpected = false

    mutating func peerSaid(_ text: String?) { lastWords = text }

    mutating func gaveUp(_ reason: String) { fault = fault ?? reason }

    /// We close it, with nothing on it.
    mutating func closed() { isExpected = true }

    /// What is better than what the channel says of its end; `nil`: nothing is.
    func text(unanswered: Int) -> String? {
        isExpected && unanswered == 0 ? "closed, with nothing left to answer" : fault
    }
}

import APNsSimulator
import PushRecords

/// The demo's three books: what was produced, what the simulator saw, what came back.
struct DemoBooks {
    /// What a request is made to become.
    enum Fortune: UInt8, CaseIterable {
        case accepted, retriedThenAccepted, unregistered, rejected, invalid, deadLetter
    }

    /// Notifications acknowledged by the broker, by what they were made to become.
    private(set) var produced = [Int](repeating: 0, count: Fortune.allCases.count)
    private(set) var records = 0
    /// Results by outcome.
    private(set) var outcomes: [Outcome: Int] = [:]
    private(set) var results = 0
    private(set) var duplicateResults = 0
    private(set) var deadTokens = 0
    private(set) var deadLetters = 0
    private(set) var inDoubt = 0
    private var seen: Set<String> = []

    mutating func noteProduced(_ fortune: Fortune, notifications: Int) {
        produced[Int(fortune.rawValue)] += notifications
        records += 1
    }

    /// `request`: the header that identifies the notification.
    mutating func noteResult(request: String, outcome: Outcome) {
        guard seen.insert(request).inserted else {
            duplicateResults += 1
            return
        }
        results += 1
        outcomes[outcome, default: 0] += 1
    }

    mutating func noteDeadToken() { deadTokens += 1 }
    mutating func noteDeadLetter() { deadLetters += 1 }

    private func count(_ fortunes: Fortune...) -> Int { fortunes.reduce(0) { $0 + produced[Int($1.rawValue)] } }

    /// Results and dead letters that are to come for what was produced.
    var expected: Int { produced.reduce(0, +) }
    var received: Int { results + deadLetters }

    /// One line of the summary: the three books, where a book has something to say.
    struct Row {
        var name: String
        var produced: Int?
        var simulator: Int?
        var results: Int?

        var agrees: Bool { Set([produced, simulator, results].compactMap(\.self)).count <= 1 }
    }

    func rows(_ totals: Totals) -> [Row] {
        [
            Row(
                name: "accepted", produced: count(.accepted, .retriedThenAccepted), simulator: totals.acceptedDistinct,
                results: outcomes[.accepted] ?? 0),
            Row(
                name: "unregistered", produced: count(.unregistered), simulator: totals[.unregistered],
                results: outcomes[.unregistered] ?? 0),
            Row(name: "  dead-token records", produced: count(.unregistered), results: deadTokens),
            Row(
                name: "rejected", produced: count(.rejected), simulator: totals[.badDeviceToken],
                results: outcomes[.rejected] ?? 0),
            Row(name: "invalid, never sent", produced: count(.invalid), results: outcomes[.invalid] ?? 0),
            Row(name: "expired", produced: 0, results: outcomes[.expired] ?? 0),
            Row(name: "abandoned", produced: 0, results: outcomes[.abandoned] ?? 0),
            Row(name: "dead letters", produced: count(.deadLetter), results: deadLetters),
            Row(name: "in all", produced: expected, results: received),
        ]
    }
}

import Kafka
import PushRecords
import Testing

@testable import Replay

/// The requests that results and dead letters name, and the action for each.
@Suite struct GathererTests {
    @Test func `A matching request is replayed once`() {
        var gatherer = Gatherer(order { $0.reasons = ["BadTopic"] })
        let values = [
            result(12), result(13, reason: "Shutdown"), result(14, index: 1), result(14, index: 0), result(12), nil,
            "{}",
        ]
        let actions = values.enumerated().map { gatherer.take(Int64($0.offset), $0.element)?.action }
        #expect(
            actions == [
                "fetch apns.requests/3/12/0", nil, "fetch apns.requests/3/14/1", "fetch apns.requests/3/14/0",
                "repeated",
                nil, "unreadable: apns.results/0/6 cannot be read: outcome is missing",
            ])
        let kinds = gatherer.kinds
        #expect(kinds.map(\.count) == [3] && kinds.map(\.first) == ["apns.requests/3/12/0"])
        #expect(kinds.first?.words == ["apns.requests", "shop", "rejected", "BadTopic"])
    }

    @Test func `A match of an earlier run is remembered and not replayed again`() {
        var gatherer = Gatherer(order())
        for value in [result(1), "damaged"] { _ = gatherer.take(0, value) }
        gatherer.found = [:]
        // A later result of the same request may be in another partition.
        let actions = [result(1), result(3)].map { gatherer.take(2, $0, of: other)?.action }
        #expect(actions == ["repeated", "fetch apns.requests/3/3/0"])
        #expect(gatherer.kinds.map(\.count) == [1])
    }

    @Test func `Another request at the same place is a different match`() {
        var gatherer = Gatherer(order())
        let actions = [result(1, requestedAtMs: 900), result(1), result(1)].map { gatherer.take(0, $0)?.action }
        #expect(actions == ["fetch apns.requests/3/1/0", "fetch apns.requests/3/1/0", "repeated"])
    }

    @Test func `A named place counts as matched only if a result matches`() {
        let places = ["apns.requests/3/1", "apns.requests/3/2/1", "apns.requests/3/3/0"].map {
            ReplaySelection.Place($0)!
        }
        var gatherer = Gatherer(order { $0.places = places })
        for value in [result(1, index: 7), result(2, index: 0), result(3, outcome: .accepted)] {
            _ = gatherer.take(0, value)
        }
        #expect(gatherer.matchedPlaces == [places[0]])
    }

    @Test(arguments: ["apns.results", "apns.retry.30s", "payments"])
    func `A result of a topic that the workers do not read is refused`(topic: String) {
        var gatherer = Gatherer(order())
        #expect(
            gatherer.take(0, result(1, topic: topic))?.action
                == "refused: \(topic)/3/1/0 is not requested again: the request's topic is not in requests.topics, so the workers do not read the topic"
        )
    }

    @Test(arguments: [(-1, 0), (.min, 0), (3, -1), (3, -1_001), (3, .min)] as [(Int32, Int64)])
    func `A result with an impossible place is refused`(partition: Int32, offset: Int64) {
        var gatherer = Gatherer(order())
        let action = gatherer.take(0, result(offset, partition: partition))?.action ?? ""
        // Either the parser of results or the check of the place refuses it.
        #expect(action.hasPrefix("refused: ") || action.hasPrefix("unreadable: "), "\(action)")
    }

    // MARK: Dead letters

    @Test func `A dead letter contains its record, or names the record's place`() {
        var gatherer = Gatherer(order(.deadLetters))
        let letters = [
            letter("not-json", own: [("a", "1")]),
            letter("worker-crashed", offset: 8, truncated: 5_000, value: "cut"),
            letter("not-json"),
            letter("output-too-large", offset: 9),
            letter("unreadable-headers", offset: 10),
            letter("worker-crashed", offset: 11, topic: "payments"),
            letter("worker-crashed", offset: 12, topic: "apns.retry.30s"),
        ]
        let actions = letters.enumerated().map { gatherer.take(Int64($0.offset), $0.element)?.action }
        #expect(
            actions == [
                "write apns.requests/3/7", "fetch whole apns.requests/3/8", "repeated",
                "refused: apns.requests/3/9 is not requested again: the record was written by the worker and is not a request",
                "refused: apns.requests/3/10 is not requested again: the record's headers cannot be read",
                "refused: payments/3/11 is not requested again: the request's topic is not in requests.topics, so the workers do not read the topic",
                "write apns.retry.30s/3/12",
            ])
        let damaged = gatherer.take(7, OwnedRecord(key: nil, value: [], headers: []))
        #expect(damaged?.action.hasPrefix("unreadable: ") == true)
    }

    @Test func `The record of a truncated dead letter is recognized by its time, size and first bytes`() throws {
        let found = try DeadLetter(letter("worker-crashed", truncated: 6, value: "abc"))
        func fits(_ value: String, _ timestampMs: Int64) -> Bool {
            Array(value.utf8).withUnsafeBytes { found.fits($0, timestampMs: timestampMs) }
        }
        #expect(fits("abcdef", 1_000))
        #expect(!fits("abcdef", 1_001) && !fits("abcde", 1_000) && !fits("abxdef", 1_000))
    }
}

import PushRecords
import Testing

@testable import Replay

/// The results and dead letters that a selection matches.
@Suite struct SelectionTests {
    private func matches(_ json: String, _ change: (inout ReplaySelection) -> Void) throws -> Bool {
        var selection = ReplaySelection()
        change(&selection)
        return selection.matches(try DeliveryResult(json: Array(json.utf8)))
    }

    @Test func `An accepted notification is selected only if that outcome is named`() throws {
        for outcome in Outcome.allCases {
            let json = result(1, outcome: outcome, reason: nil)
            #expect(try matches(json) { _ in } == (outcome != .accepted))
            #expect(try matches(json) { $0.outcomes = [.accepted] } == (outcome == .accepted))
            #expect(try matches(json) { $0.places = [.init("apns.requests/3/1")!] } == (outcome != .accepted))
        }
    }

    @Test(
        arguments: [
            ("BadTopic", "shop", ["BadTopic", "Shutdown"], [], [], true),
            ("BadTopic", "shop", ["Shutdown"], [], [], false),
            (nil, "shop", ["BadTopic"], [], [], false), ("BadTopic", "shop", [], ["shop"], [], true),
            ("BadTopic", "shop", [], ["annex"], [], false), ("BadTopic", nil, [], ["shop"], [], false),
            ("BadTopic", "shop", ["BadTopic"], ["annex"], [], false),
            ("BadTopic", "shop", [], [], [.rejected, .invalid], true), ("BadTopic", "shop", [], [], [.invalid], false),
        ] as [(String?, String?, [String], [String], [Outcome], Bool)])
    func `A result must match one value of each condition`(
        reason: String?, app: String?, reasons: [String], apps: [String], outcomes: [Outcome], isMeant: Bool
    ) throws {
        let matches = try matches(result(1, reason: reason, app: app)) {
            ($0.reasons, $0.apps, $0.outcomes) = (reasons, apps, outcomes)
        }
        #expect(matches == isMeant)
    }

    @Test func `A time range includes its start and excludes its end`() throws {
        for (since, until, isMeant) in [
            (5_000, nil, true), (5_001, nil, false), (nil, 5_001, true), (nil, 5_000, false), (4_000, 6_000, true),
        ] as [(Int64?, Int64?, Bool)] {
            #expect(try matches(result(1)) { ($0.sinceMs, $0.untilMs) = (since, until) } == isMeant)
        }
    }

    @Test(arguments: [
        ("apns.requests/3/7", true), ("apns.requests/3/7/2", true), ("apns.requests/3/7/1", false),
        ("apns.requests/2/7", false), ("apns.requests/3/8", false), ("other/3/7", false),
    ])
    func `A place selects a record or one of its notifications`(text: String, isMeant: Bool) throws {
        #expect(try matches(result(7, index: 2)) { $0.places = [.init(text)!] } == isMeant)
    }

    @Test(arguments: ["", "a", "a/1", "a/1/x", "a/1/2/3/4", "a b/1/2", "a/-1/2", "a/1/2/", "/1/2"])
    func `Other text is not a place`(text: String) {
        #expect(ReplaySelection.Place(text) == nil)
    }

    @Test func `A place is printed in the format in which it is parsed`() {
        #expect(ReplaySelection.Place("a.b/1/2")?.description == "a.b/1/2")
        #expect(ReplaySelection.Place("a.b/1/2/3")?.description == "a.b/1/2/3")
    }

    @Test func `A dead letter is selected by its reason, its own time and its place`() throws {
        let letter = try DeadLetter(letter("not-json", offset: 5))
        var selection = ReplaySelection()
        #expect(selection.matches(letter, writtenMs: 5_000))
        selection.reasons = ["worker-crashed"]
        #expect(!selection.matches(letter, writtenMs: 5_000))
        selection.reasons = ["not-json"]
        selection.sinceMs = 5_001
        #expect(!selection.matches(letter, writtenMs: 5_000) && selection.matches(letter, writtenMs: 5_001))
        selection.places = [.init("apns.requests/3/5/2")!]
        #expect(selection.matches(letter, writtenMs: 6_000))
        selection.places = [.init("apns.requests/3/6")!]
        #expect(!selection.matches(letter, writtenMs: 6_000))
    }

    @Test func `The same conditions in any order are the same job`() {
        let one = ReplayOrder.fingerprint(["results", "reason=BadTopic", "since=2h"])
        #expect(one.count <= 16)
        #expect(one == ReplayOrder.fingerprint(["since=2h", "results", "reason=BadTopic"]))
        #expect(one != ReplayOrder.fingerprint(["results", "reason=BadTopic", "since=3h"]))
        #expect(ReplayOrder.fingerprint(["ab", "c"]) != ReplayOrder.fingerprint(["a", "bc"]))
    }
}

import Testing

@testable import APNs

/// What was answered on a connection, and what that makes of it.
@Suite struct AnswerRecordTests {
    @Test func refusedStreamsCountUntilSomethingIsAnswered() {
        var record = AnswerRecord()
        #expect(!record.refused(limit: 2))
        #expect(record.refused(limit: 2))
        #expect(record.answered() && record.isAnswered)
        #expect(!record.answered(), "said once")
        #expect(!record.refused(limit: 1))
    }

    @Test func aReadWithoutAnswersChangesNothing() {
        var record = AnswerRecord()
        #expect(!record.readEnded(answers: 0, nowNs: 5))
        #expect(record.respondedNs == 0 && record.goodNs == 0)
    }

    @Test func onlyGoodAnswersEndAStreakAndShowThatItGoesOn() {
        var record = AnswerRecord()
        for _ in 1..<ErrorStreak.limit { #expect(!record.failed(nowNs: 1)) }
        #expect(record.failed(nowNs: 1))
        #expect(!record.failed(nowNs: 1), "said once")
        #expect(!record.readEnded(answers: 6, nowNs: 7))
        #expect(record.respondedNs == 7 && record.goodNs == 0 && record.errorStreak.isLong)
        record.wasGood()
        #expect(!record.readEnded(answers: 7, nowNs: 8), "it was not answered before")
        #expect(record.respondedNs == 8 && record.goodNs == 8 && record.errorStreak.count == 0)
        _ = record.answered()
        record.wasGood()
        #expect(record.readEnded(answers: 8, nowNs: 9))
        #expect(!record.readEnded(answers: 9, nowNs: 10), "what was good came in the read before")
    }

    @Test func responsesAreToldOnce() {
        var record = AnswerRecord()
        #expect(!record.takeResponses())
        record.responded()
        #expect(record.takeResponses() && !record.takeResponses())
    }

    @Test func aConnectionsEndIsToldByWhoeverEndedIt() {
        var farewell = Farewell()
        #expect(farewell.text(unanswered: 0) == nil)
        farewell.gaveUp("first")
        farewell.gaveUp("second")
        #expect(farewell.text(unanswered: 0) == "first")
        farewell.closed()
        #expect(farewell.text(unanswered: 0) == "closed, with nothing left to answer")
        #expect(farewell.text(unanswered: 1) == "first")
    }
}

import Testing

@testable import APNs

/// What was answered on a connection, and what that makes of it.
@Suite struct AnswerRecordTests {
    @Test func `Refused streams count until something is answered`() {
        var record = AnswerRecord()
        let refused = [record.refused(), record.refused()]
        #expect(refused == [1, 2])
        let answered = [record.answered(), record.answered()]
        #expect(answered == [true, false] && record.isAnswered, "said once")
        let refusedLater = record.refused()
        #expect(refusedLater == nil)
    }

    @Test func `Only good answers end a streak and show that it goes on`() {
        var record = AnswerRecord()
        var goesOn = [record.readEnded(answers: 0, nowNs: 5)]
        #expect(record.respondedNs == 0, "a read without an answer")
        let failed = (0...ErrorStreak.limit).map { _ in record.failed(nowNs: 1) }
        #expect(failed.firstIndex(of: true) == ErrorStreak.limit - 1 && !failed[ErrorStreak.limit], "said once")
        goesOn.append(record.readEnded(answers: 6, nowNs: 7))
        #expect(record.respondedNs == 7 && record.goodNs == 0 && record.errorStreak.isLong)
        record.wasGood()
        goesOn.append(record.readEnded(answers: 7, nowNs: 8))
        #expect(record.respondedNs == 8 && record.goodNs == 8 && record.errorStreak.count == 0)
        #expect(goesOn == [false, false, false], "it was not answered before")
        _ = record.answered()
        record.wasGood()
        goesOn = [record.readEnded(answers: 8, nowNs: 9), record.readEnded(answers: 9, nowNs: 10)]
        #expect(goesOn == [true, false], "what was good came in the first of the two")
    }

    @Test func `Responses are told once`() {
        var record = AnswerRecord()
        var told = [record.takeResponses()]
        record.responded()
        told += [record.takeResponses(), record.takeResponses()]
        #expect(told == [false, true, false])
    }
}

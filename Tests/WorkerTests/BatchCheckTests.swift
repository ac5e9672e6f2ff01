import Testing

@testable import Worker

/// Whether the page may say that batches are looked at.
struct BatchCheckTests {
    @Test func untilRecordsCameTheCallsThatLeadThereAreEnough() {
        var check = BatchCheck()
        #expect(!check.isLooking)
        check.isSet = true
        #expect(check.isFoundBlind(hasRead: false, hasSeen: false) == false)
        #expect(check.isLooking)
    }

    @Test func recordsWithoutABatchThatWasSeenAreToldOnce() {
        var check = BatchCheck()
        check.isSet = true
        #expect(check.isFoundBlind(hasRead: true, hasSeen: false) == true)
        #expect(!check.isLooking)
        #expect(check.isFoundBlind(hasRead: true, hasSeen: false) == false)
        #expect(check.isFoundBlind(hasRead: true, hasSeen: true) == false)
        #expect(check.isLooking)
    }

    @Test func whereNoCallLeadsThereNothingMoreIsSaid() {
        var check = BatchCheck()
        #expect(check.isFoundBlind(hasRead: true, hasSeen: false) == false)
        #expect(!check.isLooking)
    }
}

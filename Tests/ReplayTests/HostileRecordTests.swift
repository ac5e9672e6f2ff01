import Kafka
import PushRecords
import Testing

@testable import Replay

/// Results and dead letters that are not what a worker writes: whoever may write to their topics may say anything. None
/// of them ends, holds up or hides what stands beside it.
@Suite struct HostileRecordTests {
    static let places: [(topic: String, partition: Int32, offset: Int64)] = [
        ("apns.requests", -1, 0), ("apns.requests", .min, 0), ("apns.requests", 100_000, 0), ("apns.requests", .max, 0),
        ("apns.requests", 3, -1), ("apns.requests", 3, -2), ("apns.requests", 3, -1_001), ("apns.requests", 3, .min),
        ("apns.requests", 3, 1 << 62), ("apns.requests", 3, .max), ("apns.requests", 3, .max - 1), ("", 3, 0),
        (".", 3, 0), ("..", 3, 0), ("a b", 3, 0), ("a/b", 3, 0), ("ä", 3, 0), ("apns.requests\\u0000", 3, 0),
        (String(repeating: "a", count: 250), 3, 0),
    ]

    // MARK: Places that there cannot be

    @Test(arguments: places)
    func aResultOfNoPlaceIsSpoiled(topic: String, partition: Int32, offset: Int64) {
        var gatherer = Gatherer(order(), job(), requestLimit: 100)
        gatherer.take(0, result(offset, partition: partition, topic: topic))
        gatherer.take(1, result(12))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/12/0"])
        #expect(batch.after[source]?.counts.unreadable == 1 && batch.after[source]?.counts.matched == 1)
        let remarks = gatherer.takeRemarks()
        #expect(remarks == ["apns.results/0/0 cannot be read: its request is no place in Kafka"])
        // Whoever goes on with the job says nothing of it again.
        var progress = job()
        progress.moved(source, to: 1)
        gatherer = Gatherer(order(), progress, requestLimit: 100)
        gatherer.take(0, result(offset, partition: partition, topic: topic))
        let again = gatherer.takeRemarks()
        #expect(again.isEmpty && gatherer.progress.counts.unreadable == 0)
    }

    @Test(arguments: [-1, .min, 10_000, .max] as [Int32])
    func noRequestHasSuchAnIndex(index: Int32) {
        var gatherer = Gatherer(order(), job(), requestLimit: 100)
        gatherer.take(0, result(1, index: index))
        let batch = gatherer.takeBatch()
        #expect(batch.items.isEmpty && batch.after[source]?.counts.unreadable == 1)
    }

    @Test(arguments: places)
    func aLetterOfNoPlaceIsRefused(topic: String, partition: Int32, offset: Int64) {
        for last in [nil, offset, 5, .max, .min] as [Int64?] {
            var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 100)
            gatherer.take(
                0, letter("not-json", offset: offset, last: last, topic: topic, partition: partition))
            gatherer.take(1, letter("not-json", offset: 12))
            let batch = gatherer.takeBatch()
            #expect(batch.places == ["apns.requests/3/12"] && !gatherer.hasMore)
            #expect(batch.after[source]?.counts.refused == 1 && batch.after[source]?.counts.matched == 2)
            let remarks = gatherer.takeRemarks()
            #expect(remarks.count == 1 && remarks[0].hasSuffix("it does not say where it was"))
        }
    }

    // MARK: Batches

    @Test(
        arguments: [
            (0, 10_000_000), (0, 1_000_000_000_000), (0, (1 << 62) - 1), (7, 6), (7, 0), (1_000_000_000_000, 3),
        ] as [(Int64, Int64)])
    func offsetsOfNoBatchAreRefused(first: Int64, last: Int64) {
        var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 100)
        gatherer.take(0, letter("unreadable-batch", offset: first, last: last))
        gatherer.take(1, letter("not-json", offset: 12))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/12"] && !gatherer.hasMore)
        #expect(batch.after[source]?.counts.refused == 1)
        let remarks = gatherer.takeRemarks()
        #expect(
            remarks == ["apns.requests/3/\(first) is not asked for again: its offsets are not those of one batch"])
    }

    /// The last place that there can be, and the widest batch.
    @Test func batchesAtTheBoundsAreTaken() {
        let end: Int64 = (1 << 62) - 1
        for (first, last) in [(end - 8, end), (end, end), (0, 9_999_999)] {
            var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 10_000)
            gatherer.take(0, letter("unreadable-batch", offset: first, last: last))
            var offsets: Int64 = 0
            repeat {
                let batch = gatherer.takeBatch()
                offsets += batch.items.reduce(0) { $0 + Int64($1.offsets.count) }
            } while gatherer.hasMore
            #expect(offsets == last - first + 1)
        }
    }

    @Test func aLetterOfOneRecordHidesNoBatch() {
        var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 1_000)
        gatherer.take(0, letter("unreadable-batch", offset: 40, last: 40, value: nil))
        _ = gatherer.takeBatch()
        gatherer.take(1, letter("unreadable-batch", offset: 40, last: 49, value: nil))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/40–49"] && batch.after[source]?.counts.repeated == 0)
        gatherer.take(2, letter("unreadable-batch", offset: 40, last: 49, value: nil))
        let again = gatherer.takeBatch()
        #expect(again.items.isEmpty && again.after[source]?.counts.repeated == 1)
    }

    /// It has nothing of its record: what it has is not taken for it.
    @Test func aBatchThatDoesNotSayItsEndIsFetched() {
        var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 100)
        gatherer.take(0, letter("unreadable-batch", offset: 40, value: nil))
        let batch = gatherer.takeBatch()
        guard case .records? = batch.items.first?.kind else {
            Issue.record("\(batch.items)")
            return
        }
        #expect(batch.items.count == 1)
    }

    /// The topic of the dead letters was made anew: where a job stood within a letter is nothing to another letter.
    @Test(arguments: [5, 999, 1_250, 5_000] as [Int64])
    func whereAnotherLetterWasLeftIsNothingToThisOne(within: Int64) {
        var progress = job()
        progress.moved(source, to: 1, within: within)
        var gatherer = Gatherer(order(.deadLetters), progress, requestLimit: 1_000)
        gatherer.take(0, letter("not-json", offset: 1))
        gatherer.take(1, letter("unreadable-batch", offset: 1_000, last: 1_249))
        let batch = gatherer.takeBatch()
        #expect(batch.items.first?.offsets.lowerBound == 1_000 && batch.items.last?.offsets.upperBound == 1_249)
        #expect(batch.requests == 250 && batch.after[source]?.counts.matched == 1)
    }

    /// Of a batch no more is known than that it was there when its letter was written, and when the job began: an end
    /// that is too far would have the job ask again for what it wrote itself.
    @Test func whatCameLaterIsNoRecordOfTheBatch() {
        func fits(_ timestampMs: Int64, writtenMs: Int64, beganMs: Int64 = 900_000) -> Bool {
            let mark = LetterMark(writtenMs: writtenMs, beganMs: beganMs)
            return [UInt8]().withUnsafeBytes { mark.fits($0, timestampMs: timestampMs) }
        }
        #expect(fits(1, writtenMs: 100_000) && fits(160_000, writtenMs: 100_000) && !fits(160_001, writtenMs: 100_000))
        #expect(fits(119_999, writtenMs: 100_000, beganMs: 120_000))
        #expect(!fits(120_000, writtenMs: 100_000, beganMs: 120_000))
        #expect(fits(-1, writtenMs: 100_000) && fits(.max, writtenMs: 100_000), "it has no time")
        for none in [-1, 0, .min, .max] as [Int64] {
            #expect(fits(899_999, writtenMs: none) && !fits(900_000, writtenMs: none), "the letter has none")
        }
    }

    // MARK: Topics

    @Test(arguments: ["apns.results", "apns.dead-letters", "apns.retry.30s", "payments", "apns.requests.old"])
    func aResultOfAnotherTopicIsNotAskedForAgain(topic: String) {
        var gatherer = Gatherer(order(), job(), requestLimit: 100)
        gatherer.take(0, result(1, topic: topic))
        gatherer.take(1, result(1))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/1/0"])
        #expect(batch.after[source]?.counts.refused == 1 && batch.after[source]?.counts.matched == 2)
        let remarks = gatherer.takeRemarks()
        #expect(
            remarks == [
                "\(topic)/3/1/0 is not asked for again: its topic is none of requests.topics, and the workers do not read it"
            ])
    }

    @Test(arguments: [
        ("apns.results", false), ("apns.dead-letters", false), ("apns.retry.30s", true), ("payments", false),
    ])
    func aLetterOfAnotherTopicIsNotAskedForAgain(topic: String, isMeant: Bool) {
        for (reason, last) in [("not-json", nil), ("unreadable-batch", 20)] as [(String, Int64?)] {
            var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 100)
            gatherer.take(0, letter(reason, last: last, topic: topic))
            let batch = gatherer.takeBatch()
            #expect(batch.items.isEmpty == !isMeant && batch.after[source]?.counts.refused == (isMeant ? 0 : 1))
        }
    }

    // MARK: Others at the same place

    /// A log that was there before the topic was made anew, or somebody who says so.
    @Test func whatIsSaidOfAnotherRecordHidesNoResult() {
        var gatherer = Gatherer(order(), job(), requestLimit: 100)
        gatherer.take(0, result(1, requestedAtMs: 900))
        gatherer.take(1, result(1, device: String(repeating: "00", count: 32)))
        gatherer.take(2, result(1))
        gatherer.take(3, result(1))
        let batch = gatherer.takeBatch()
        #expect(batch.items.count == 3 && batch.after[source]?.counts.repeated == 1)
        #expect(batch.wanted().values.map { $0.map(\.items) } == [[[0, 1, 2]]])
    }

    @Test func whatIsSaidOfAnotherRecordHidesNoLetter() {
        var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 100)
        gatherer.take(0, letter("not-json", atMs: 900))
        gatherer.take(1, letter("not-json", value: "forged"))
        gatherer.take(2, letter("not-json"))
        gatherer.take(3, letter("worker-crashed"))
        let batch = gatherer.takeBatch()
        #expect(batch.items.count == 3 && batch.after[source]?.counts.repeated == 1)
    }

    // MARK: Memory

    /// A result may be as large as its topic lets it be, and so may a word in it.
    @Test func wordsOfAnyLengthTakeNoMemory() {
        let long = String(repeating: "a", count: 100_000)
        var gatherer = Gatherer(order(), job(), requestLimit: 100)
        gatherer.take(0, result(1, reason: long, app: long, device: long))
        let batch = gatherer.takeBatch()
        guard case .notification(let wish)? = batch.items.first?.kind else {
            Issue.record("\(batch.items.count)")
            return
        }
        #expect(wish.target.utf8.count == 201)
        let row = gatherer.tally.rows.first?.row
        #expect(row?.app?.utf8.count == 256 && row?.reason?.utf8.count == 256)
        var letters = Gatherer(order(.deadLetters), job(), requestLimit: 100)
        letters.take(
            0,
            OwnedRecord(
                key: nil, value: nil,
                headers: letter("x").headers.map {
                    $0.name.elementsEqual("push-dlq-offset".utf8) ? OwnedRecord.Header($0.name, Array(long.utf8)) : $0
                }))
        let remarks = letters.takeRemarks()
        #expect(remarks.count == 1 && remarks[0].utf8.count == 1_000)
    }

    /// What cannot be read is said in time, however much it is.
    @Test func remarksDoNotPileUp() {
        var gatherer = Gatherer(order(), job([source: 5_000]), requestLimit: 100)
        var offset: Int64 = 0
        while !gatherer.isFull, offset < 5_000 {
            gatherer.take(offset, "damaged")
            offset += 1
        }
        #expect(offset == 1_000)
        let batch = gatherer.takeBatch()
        let remarks = gatherer.takeRemarks()
        #expect(batch.after[source]?.position == 1_000 && remarks.count == 1_000 && !gatherer.isFull)
    }
}

import Kafka
import PushRecords
import Testing

@testable import Replay

/// What is gathered of results and dead letters, and how far the job is with it.
@Suite struct GathererTests {
    @Test func whatMatchesIsTakenOnce() {
        var gatherer = Gatherer(order { $0.reasons = ["BadTopic"] }, job(), requestLimit: 100)
        gatherer.take(0, result(12))
        gatherer.take(1, result(13, reason: "Shutdown"))
        gatherer.take(2, result(14, index: 1))
        gatherer.take(3, result(14, index: 0))
        gatherer.take(4, result(12))
        gatherer.take(5, nil)
        gatherer.take(6, "{}")
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/12/0", "apns.requests/3/14/1", "apns.requests/3/14/0"])
        let progress = batch.after[source]
        #expect(progress?.position == 7 && progress?.counts.matched == 4 && progress?.counts.repeated == 1)
        #expect(progress?.counts.unreadable == 1)
        let remarks = gatherer.takeRemarks()
        #expect(remarks == ["apns.results/0/6 cannot be read: outcome is missing"])
        let next = gatherer.takeBatch()
        #expect(next.items.isEmpty && !gatherer.hasMore)
        let rows = gatherer.tally.rows
        #expect(rows.count == 1 && rows.first?.count == 3)
        #expect(
            rows.first?.row
                == ReplayTally.Row(topic: "apns.requests", app: "shop", outcome: .rejected, reason: "BadTopic"))
        #expect(gatherer.tally.first.first == "apns.requests/3/12/0")
    }

    /// What a log wants is in its order, each record once, whatever the results' order.
    @Test func whatIsWantedIsInTheOrderOfTheLog() {
        var gatherer = Gatherer(order(), job(), requestLimit: 100)
        for (place, (offset, index)) in [(30, 2), (10, 0), (30, 0), (20, 0)].enumerated()
            as EnumeratedSequence<[(Int64, Int32)]>
        {
            gatherer.take(Int64(place), result(offset, index: index))
        }
        let wanted = gatherer.takeBatch().wanted()[TopicPartition("apns.requests", 3)]
        #expect(wanted?.map(\.offsets) == [10...10, 20...20, 30...30])
        #expect(wanted?.map(\.items) == [[1], [3], [2, 0]])
    }

    /// What the job itself brings about stands behind its end.
    @Test func theEndIsWhereItWasWhenTheJobBegan() {
        var gatherer = Gatherer(order(), job([source: 2, other: 5]), requestLimit: 100)
        gatherer.take(0, result(1))
        #expect(!gatherer.isDone(source))
        gatherer.take(2, result(2))
        #expect(gatherer.isDone(source) && gatherer.progress.partitions[source]?.position == 2)
        let batch = gatherer.takeBatch()
        #expect(batch.items.count == 1)
        // Marks of transactions are no records: the end is told.
        gatherer.ends(other, at: 4)
        #expect(!gatherer.isDone(other))
        gatherer.ends(other, at: 5)
        #expect(gatherer.isDone(other) && gatherer.progress.isDone)
        #expect(gatherer.isDone(TopicPartition("apns.results", 7)), "one that came later")
    }

    @Test func aFullBatchWaits() {
        var gatherer = Gatherer(order(), job(), requestLimit: 2)
        gatherer.take(0, result(1))
        #expect(!gatherer.isFull)
        gatherer.take(1, result(2))
        #expect(gatherer.isFull)
        let batch = gatherer.takeBatch()
        #expect(batch.after[source]?.position == 2 && !gatherer.isFull)
    }

    /// Whoever goes on with a job remembers what was asked for before, and takes nothing of it again.
    @Test func whatWasDoneIsOnlyRemembered() {
        var progress = job()
        progress.moved(source, to: 2)
        var gatherer = Gatherer(order(), progress, requestLimit: 100)
        gatherer.take(0, result(1))
        gatherer.take(1, "damaged")
        gatherer.take(2, result(1))
        gatherer.take(3, result(3))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/3/0"])
        #expect(batch.after[source]?.counts.repeated == 1 && batch.after[source]?.counts.matched == 2)
        let remarks = gatherer.takeRemarks()
        #expect(remarks.isEmpty)
    }

    /// Partitions are read in any order, and two results of one notification may be in two: what was done is read
    /// before.
    @Test func whatWasDoneElsewhereIsRememberedFirst() {
        var progress = job([source: 100, other: 100])
        progress.moved(source, to: 50)
        progress.moved(other, to: 3)
        var gatherer = Gatherer(order(), progress, requestLimit: 100)
        #expect(gatherer.toRemember == [source, other])
        gatherer.take(2, result(2), of: other)
        #expect(gatherer.toRemember == [source])
        gatherer.take(3, result(1), of: other)
        gatherer.ends(other, at: 100)
        gatherer.take(40, result(1))
        // Marks of transactions are no records.
        gatherer.ends(source, at: 50)
        #expect(gatherer.toRemember.isEmpty && gatherer.progress.partitions[other]?.position == 3)
        gatherer.take(3, result(1), of: other)
        gatherer.take(50, result(5))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/5/0"] && batch.after[other]?.counts.repeated == 1)
        // What retention took needs no remembering.
        gatherer = Gatherer(order(), progress, requestLimit: 100)
        gatherer.begins(source, at: 50)
        #expect(gatherer.toRemember == [other] && gatherer.progress.counts.lost == 0)
        // The first that is behind it may be new, and is told again.
        gatherer.take(9, result(9), of: other)
        #expect(gatherer.toRemember.isEmpty)
        gatherer.take(9, result(9), of: other)
        let last = gatherer.takeBatch()
        #expect(last.places == ["apns.requests/3/9/0"])
    }

    @Test func theJobsOwnTimesCount() {
        var progress = JobProgress(facts(since: 6_000), [source: 0..<100])
        progress.moved(source, to: 0)
        // What the command says now, relative to now, is another time.
        var gatherer = Gatherer(order { $0.sinceMs = 1 }, progress, requestLimit: 100)
        gatherer.take(0, result(1, settledAtMs: 5_999))
        gatherer.take(1, result(2, settledAtMs: 6_000))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/2/0"])
    }

    @Test func whatWasGoneBeforeItWasReadIsCounted() {
        var gatherer = Gatherer(order(), job(), requestLimit: 100)
        gatherer.begins(source, at: 0)
        #expect(gatherer.progress.counts.lost == 0)
        gatherer.begins(source, at: 30)
        #expect(gatherer.progress.counts.lost == 30 && gatherer.progress.partitions[source]?.position == 30)
        gatherer.begins(source, at: 500)
        #expect(gatherer.progress.counts.lost == 100 && gatherer.isDone(source))
        let remarks = gatherer.takeRemarks()
        #expect(!gatherer.progress.counts.isComplete && remarks.count == 2)
    }

    @Test func aBatchInHalvesIsCommittedInHalves() {
        var gatherer = Gatherer(order(), job([source: 100, other: 100]), requestLimit: 100)
        gatherer.take(0, result(1))
        gatherer.take(5, result(2, reason: "Shutdown"), of: other)
        gatherer.take(3, result(1))
        gatherer.take(4, result(3))
        gatherer.take(9, result(4), of: other)
        let batch = gatherer.takeBatch()
        let (first, second) = batch.halves()
        #expect(first.places == ["apns.requests/3/1/0", "apns.requests/3/2/0"])
        #expect(second.places == ["apns.requests/3/3/0", "apns.requests/3/4/0"])
        // Before the first of what is left, with all that was counted until then.
        #expect(first.after[source]?.position == 4 && first.after[source]?.counts.matched == 2)
        #expect(first.after[other]?.position == 6 && first.after[other]?.counts.matched == 1)
        #expect(second.after == batch.after && second.after[other]?.position == 10)
        let (one, two) = first.halves()
        #expect(one.items.count == 1 && two.items.count == 1 && one.after[other]?.position == 0)
        // Together they are all of it.
        #expect(batch.after[source]?.counts.repeated == 1)
    }

    @Test func namedPlacesOfWhichNothingMatches() {
        var gatherer = Gatherer(
            order {
                $0.places = [.init("apns.requests/3/1")!, .init("apns.requests/3/2/1")!, .init("apns.requests/3/3/0")!]
            },
            job(), requestLimit: 100)
        gatherer.take(0, result(1, index: 7))
        gatherer.take(1, result(2, index: 0))
        gatherer.take(2, result(3, outcome: .accepted))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/1/7"])
        #expect(gatherer.unmatched == ["apns.requests/3/2/1", "apns.requests/3/3/0"])
    }

    // MARK: Dead letters

    private func kinds(_ batch: ReplayBatch) -> [String] {
        batch.items.map { item in
            switch item.kind {
            case .letter(let record):
                "letter \(record.headers.map { "\(String(decoding: $0.name, as: UTF8.self))=\(String(decoding: $0.value ?? [], as: UTF8.self))" })"
            case .records(let mark):
                "\(item.place) \(mark == LetterMark(writtenMs: 5_000, beganMs: 9_000) ? "any" : "known")"
            case .notification: "notification"
            }
        }
    }

    @Test func lettersHaveTheirRecordOrSayWhereItIs() {
        var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 100)
        gatherer.take(0, letter("not-json", own: [("a", "1")]))
        gatherer.take(1, letter("worker-crashed", offset: 8, truncated: 5_000, value: "cut"))
        gatherer.take(2, letter("not-json"))
        gatherer.take(3, letter("output-too-large", offset: 9))
        gatherer.take(4, letter("unreadable-headers", offset: 10))
        gatherer.take(5, OwnedRecord(key: nil, value: [], headers: []))
        let batch = gatherer.takeBatch()
        #expect(kinds(batch) == [#"letter ["push-replay-of=apns.requests/3/7/0", "a=1"]"#, "apns.requests/3/8 known"])
        let counts = batch.after[source]?.counts
        #expect(counts?.matched == 5 && counts?.repeated == 1 && counts?.refused == 2 && counts?.unreadable == 1)
        let remarks = gatherer.takeRemarks()
        #expect(remarks.count == 3)
    }

    @Test func aBatchOfRecordsIsTakenPieceByPiece() {
        var gatherer = Gatherer(order(.deadLetters), job(), requestLimit: 100)
        gatherer.take(0, letter("not-json", offset: 1))
        gatherer.take(1, letter("unreadable-batch", offset: 1_000, last: 1_249))
        #expect(gatherer.isFull, "nothing may be told before all of it is taken")
        var batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/1", "apns.requests/3/1000–1063", "apns.requests/3/1064–1098"])
        // The letter itself is not passed before the last of its records.
        #expect(batch.after[source]?.position == 1 && batch.after[source]?.within == 1_099)
        #expect(batch.after[source]?.counts.matched == 2)
        let (first, second) = batch.halves()
        #expect(first.after[source]?.position == 1 && first.after[source]?.within == 1_000)
        #expect(second.after == batch.after)
        #expect(gatherer.isFull && gatherer.hasMore)
        batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/1099–1162", "apns.requests/3/1163–1198"])
        batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/1199–1249"])
        #expect(batch.after[source]?.position == 2 && batch.after[source]?.within == nil && !gatherer.isFull)
    }

    @Test func aBatchOfRecordsGoesOnWithin() {
        var progress = job()
        progress.moved(source, to: 1, within: 1_200)
        var gatherer = Gatherer(order(.deadLetters), progress, requestLimit: 100)
        gatherer.take(0, letter("not-json", offset: 1))
        gatherer.take(1, letter("unreadable-batch", offset: 1_000, last: 1_249))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/1200–1249"] && batch.after[source]?.position == 2)
        #expect(batch.after[source]?.counts.matched == 0, "it was counted before")
    }

    @Test func ofABatchOnlyWhatIsNamed() {
        var gatherer = Gatherer(
            order(.deadLetters) { $0.places = [.init("apns.requests/3/1003")!, .init("apns.requests/3/1100")!] }, job(),
            requestLimit: 100)
        gatherer.take(0, letter("unreadable-batch", offset: 1_000, last: 1_249))
        let batch = gatherer.takeBatch()
        #expect(batch.places == ["apns.requests/3/1003", "apns.requests/3/1100"] && gatherer.unmatched.isEmpty)
        #expect(batch.items[1].before.within == 1_004 && batch.after[source]?.position == 1)
    }

    @Test func aCutLetterKnowsItsRecord() throws {
        let cut = try DeadLetter(
            key: nil, value: Array("abc".utf8),
            headers: letter("worker-crashed", truncated: 6).headers.map {
                HeaderField(String(decoding: $0.name, as: UTF8.self), $0.value ?? [])
            })
        let mark = LetterMark(cut, writtenMs: 5_000, beganMs: 9_000)
        func fits(_ value: String, _ timestampMs: Int64) -> Bool {
            Array(value.utf8).withUnsafeBytes { mark.fits($0, timestampMs: timestampMs) }
        }
        #expect(fits("abcdef", 1_000))
        #expect(!fits("abcdef", 1_001) && !fits("abcde", 1_000) && !fits("abxdef", 1_000))
    }
}

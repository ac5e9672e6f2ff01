internal import Kafka
internal import PushRecords

/// What one transaction is about: the requests that were found to be asked for again, and how far the job is with them.
struct ReplayBatch {
    /// One notification, or one record, or some records of a batch that could not be read.
    struct Item {
        enum Kind {
            /// A notification that a result is about.
            case notification(ReplayWish)
            /// Whole records whose dead letter does not have all of them.
            case records(LetterMark)
            /// A whole record, as its dead letter has it.
            case letter(OwnedRecord)
        }

        /// The partition of the results or dead letters that it was found in, and how far the job was with that before.
        var source: TopicPartition
        var before: PartitionProgress
        /// Where the request stands.
        var log: TopicPartition
        /// One, but for records of a batch.
        var offsets: ClosedRange<Int64>
        var kind: Kind

        var index: Int32 {
            if case .notification(let wish) = kind { wish.index } else { 0 }
        }

        /// For people.
        var place: String {
            let offset = "\(log)/\(offsets.lowerBound)"
            switch kind {
            case .notification(let wish): return "\(offset)/\(wish.index)"
            case .records, .letter: return offset + (offsets.count > 1 ? "–\(offsets.upperBound)" : "")
            }
        }
    }

    /// In the order in which they were found.
    private(set) var items: [Item] = []
    /// What the letters' records take.
    private(set) var bytes = 0
    /// Requests that they are, at most.
    private(set) var requests = 0
    /// How far the job is once all of it is done.
    var after: [TopicPartition: PartitionProgress] = [:]

    mutating func append(_ item: Item) {
        if case .letter(let record) = item.kind { bytes += record.byteCount + 200 }
        requests += item.offsets.count
        items.append(item)
    }

    /// The same in two; there are two items at least.
    func halves() -> (ReplayBatch, ReplayBatch) {
        var halves = (ReplayBatch(), ReplayBatch())
        halves.0.after = after
        halves.1.after = after
        for (number, item) in items.enumerated() {
            if number < items.count / 2 {
                halves.0.append(item)
            } else {
                // What is found in a partition behind it waits, too.
                if !halves.1.items.contains(where: { $0.source == item.source }) {
                    halves.0.after[item.source] = item.before
                }
                halves.1.append(item)
            }
        }
        return halves
    }

    /// What is wanted of each log, but for what the letters have, in the order in which it is read.
    func wanted() -> [TopicPartition: [LogFetch.Wanted]] {
        var byLog: [TopicPartition: [Int]] = [:]
        for (number, item) in items.enumerated() {
            if case .letter = item.kind { continue }
            byLog[item.log, default: []].append(number)
        }
        return byLog.mapValues { numbers in
            let sorted = numbers.sorted {
                let (one, other) = (items[$0], items[$1])
                return one.offsets.lowerBound != other.offsets.lowerBound
                    ? one.offsets.lowerBound < other.offsets.lowerBound : one.index < other.index
            }
            var wanted: [LogFetch.Wanted] = []
            for number in sorted {
                if wanted.last?.offsets == items[number].offsets {
                    wanted[wanted.count - 1].items.append(number)
                } else {
                    wanted.append(LogFetch.Wanted(offsets: items[number].offsets, items: [number]))
                }
            }
            return wanted
        }
    }
}

/// By what a dead letter's records are known where the letter does not have all of them.
struct LetterMark: Hashable, Sendable {
    /// -1: it has none.
    private var timestampMs: Int64
    /// `nil`: not told.
    private var valueSize: Int?
    /// The first bytes; `nil`: not told.
    private var valueStart: [UInt8]?
    /// Its record was there when the letter was written, and when the job began.
    private var latestMs: Int64

    /// A producer's clock may be ahead of that of who wrote the letter.
    private static let clockMs: Int64 = 60_000

    init(_ letter: DeadLetter, writtenMs: Int64, beganMs: Int64) {
        self.init(writtenMs: writtenMs, beganMs: beganMs)
        timestampMs = letter.timestampMs
        valueSize = letter.truncatedBytes
        valueStart = letter.value
    }

    /// Of the records of a batch, of which nothing else is known.
    ///
    /// - Parameters:
    ///   - writtenMs: the letter's own timestamp.
    ///   - beganMs: when the job began: what it writes itself comes later, by the same clock.
    init(writtenMs: Int64, beganMs: Int64) {
        timestampMs = RecordTime.unknown
        let writtenMs = RecordTime.adding(Self.clockMs, to: writtenMs)
        latestMs = writtenMs == RecordTime.unknown ? beganMs - 1 : min(writtenMs, beganMs - 1)
    }

    func fits(_ value: UnsafeRawBufferPointer, timestampMs: Int64) -> Bool {
        let (one, other) = (RecordTime.checked(self.timestampMs), RecordTime.checked(timestampMs))
        return (one == RecordTime.unknown || one == other)
            && other <= latestMs
            && valueSize.map { $0 == value.count } ?? true
            && valueStart.map { value.prefix($0.count).elementsEqual($0) } ?? true
    }
}

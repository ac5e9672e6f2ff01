internal import Kafka
internal import PushRecords

/// A record of the results or dead letters as it is lent to the gatherer.
struct SourceRecord {
    var partition: TopicPartition
    var offset: Int64
    var timestampMs: Int64
    var key: UnsafeRawBufferPointer
    var value: UnsafeRawBufferPointer
    var headers: UnsafeBufferPointer<RecordHeader>
}

/// Decides what of the results or dead letters is to be asked for again, record by record; no clock, no I/O. What it
/// decides depends on nothing but the records of a partition from the job's beginning on, so that whoever goes on with
/// a job comes to the same.
struct Gatherer {
    private let order: ReplayOrder
    /// How far it is with what it was told; what became of the requests is not among its counts.
    private(set) var progress: JobProgress
    private(set) var batch = ReplayBatch()
    private(set) var tally = ReplayTally()
    /// What is to be said of single records, until it is taken.
    private(set) var remarks: [String] = []
    private var memory: RequestMemory
    /// Of the last topics that were asked for (`ReplayTopics`).
    private var obstacles: [String: String?] = [:]
    /// Where the job went on: what stands below was done, and is only to be remembered.
    private let resumed: [TopicPartition: Int64]
    /// Those of which not all that was done was read yet. Before it was, of all partitions, nothing new is taken: of
    /// two results of one notification it was the one in another partition, perhaps.
    private(set) var toRemember: Set<TopicPartition>
    /// A dead letter that stands for many records, of which not all are in `batch` yet.
    private var piece: Piece?
    /// That the selection names, by the numbers that commits have for them.
    let places: [ReplaySelection.Place]
    private let requestLimit: Int

    /// A letter that stands for many records.
    private struct Piece {
        var source: TopicPartition
        /// Its own offset.
        var letter: Int64
        var log: TopicPartition
        var next: Int64
        var last: Int64
        /// Only these, in their order; `nil`: all.
        var only: [Int64]?
        var mark: LetterMark

        /// The next ones, `limit` at most.
        func offsets(_ limit: Int) -> ClosedRange<Int64> {
            if let only, let named = only.first(where: { $0 >= next }) { return named...named }
            return next...min(last, next + Int64(limit) - 1)
        }
    }

    /// Records that are fetched together, since no smaller piece is committed by itself.
    private static let pieceLimit = 64
    /// Of what a batch's letters hold in memory.
    private static let byteLimit = 16 << 20
    /// Of what is to be said of single records, and of the bytes of each.
    private static let (remarkLimit, remarkBytes) = (1_000, 1_000)
    private static let topicLimit = 1_000

    init(_ order: ReplayOrder, _ progress: JobProgress, requestLimit: Int, memory: RequestMemory = RequestMemory()) {
        var order = order
        order.selection.sinceMs = progress.facts.sinceMs
        order.selection.untilMs = progress.facts.untilMs
        self.order = order
        self.progress = progress
        self.memory = memory
        self.requestLimit = requestLimit
        resumed = progress.partitions.mapValues(\.position)
        toRemember = Set(progress.partitions.filter { $0.value.position > $0.value.start }.keys)
        places = order.selection.orderedPlaces
    }

    // MARK: The batch

    /// Nothing more is to be told before the batch was taken.
    var isFull: Bool {
        batch.requests >= requestLimit || batch.bytes >= Self.byteLimit || piece != nil
            || remarks.count >= Self.remarkLimit
    }

    /// Some of what was told waits for the next batch.
    var hasMore: Bool { piece != nil || batch.requests > 0 }

    /// The next record of the partition is of no interest any more.
    func isDone(_ partition: TopicPartition) -> Bool { progress.partitions[partition]?.isDone ?? true }

    /// What was gathered; the next one begins, with what did not fit.
    mutating func takeBatch() -> ReplayBatch {
        var taken = batch
        taken.after = progress.partitions
        batch = ReplayBatch()
        cut()
        return taken
    }

    mutating func takeRemarks() -> [String] {
        defer { remarks = [] }
        return remarks
    }

    // MARK: What is told

    /// The log has nothing below this offset any more.
    mutating func begins(_ partition: TopicPartition, at offset: Int64) {
        remembered(partition, to: offset)
        guard let known = progress.partitions[partition], offset > known.position, !known.isDone else { return }
        var counts = ReplayCounts()
        counts.lost = min(offset, known.end) - known.position
        remark("\(counts.lost) offsets of \(partition) from \(known.position) on were gone before they were read")
        progress.count(partition, counts)
        progress.moved(partition, to: offset)
    }

    /// Nothing stands between what was told last and this offset.
    mutating func ends(_ partition: TopicPartition, at offset: Int64) {
        if !toRemember.isEmpty { return remembered(partition, to: offset) }
        guard let known = progress.partitions[partition], offset > known.position, piece == nil else { return }
        progress.moved(partition, to: offset)
    }

    private mutating func remembered(_ partition: TopicPartition, to offset: Int64) {
        if offset >= resumed[partition] ?? 0 { toRemember.remove(partition) }
    }

    /// What is new while something is still to be remembered is passed over, and is to be told again.
    mutating func take(_ record: SourceRecord) {
        if !toRemember.isEmpty {
            remembered(record.partition, to: record.offset + 1)
            guard record.offset < resumed[record.partition] ?? 0 else { return }
        }
        guard let known = progress.partitions[record.partition], record.offset < known.end else {
            progress.moved(record.partition, to: .max)
            return
        }
        let isKnown = record.offset < resumed[record.partition] ?? 0
        guard isKnown || record.offset >= known.position else { return }
        // A letter of which some was done: what is left of it follows.
        let within = !isKnown && record.offset == known.position ? known.within : nil
        if !isKnown { progress.moved(record.partition, to: record.offset + 1) }
        switch order.source {
        case .results: takeResult(record, isKnown, known)
        case .deadLetters: takeLetter(record, isKnown, known, within)
        }
    }

    // MARK: Results

    private mutating func takeResult(_ record: SourceRecord, _ isKnown: Bool, _ before: PartitionProgress) {
        // A tombstone says nothing.
        guard record.value.baseAddress != nil else { return }
        let result: DeliveryResult
        do throws(RecordError) {
            result = try DeliveryResult(json: record.value)
        } catch {
            if !isKnown { spoil(record, "\(error)") }
            return
        }
        guard order.selection.matches(result) else { return }
        guard LogBounds.has(result.request) else {
            if !isKnown { spoil(record, "its request is no place in Kafka") }
            return
        }
        let (asked, from) = (result.request, record.partition)
        note(asked.topic, asked.partition, asked.offset...asked.offset, asked.index, in: from)
        let isNew = memory.insert(result)
        guard !isKnown, count(record, isNew) else { return }
        let request = result.request
        let item = ReplayBatch.Item(
            source: record.partition, before: before, log: TopicPartition(request.topic, request.partition),
            offsets: request.offset...request.offset, kind: .notification(ReplayWish(result)))
        tally.add(
            ReplayTally.Row(
                topic: request.topic, app: result.app, outcome: result.outcome, reason: result.reason?.rawValue),
            at: item.place)
        if let obstacle = obstacle(request.topic) {
            refuse(record, item.place, obstacle)
        } else {
            batch.append(item)
        }
    }

    /// The record of the worker's own cannot be read.
    private mutating func spoil(_ record: SourceRecord, _ reason: String) {
        var counts = ReplayCounts()
        counts.unreadable = 1
        progress.count(record.partition, counts)
        remark("\(record.partition)/\(record.offset) cannot be read: \(reason)")
    }

    /// What it is about is not to be asked for again.
    private mutating func refuse(_ record: SourceRecord, _ place: String, _ obstacle: String) {
        var counts = ReplayCounts()
        counts.refused = 1
        progress.count(record.partition, counts)
        remark("\(place) is not asked for again: \(obstacle)")
    }

    /// Why nothing of this topic is asked for again.
    private mutating func obstacle(_ topic: String) -> String? {
        if let known = obstacles[topic] { return known }
        if obstacles.count >= Self.topicLimit { obstacles = [:] }
        let found = order.topics.obstacle(topic, of: order.source)
        obstacles.updateValue(found, forKey: topic)
        return found
    }

    private mutating func remark(_ line: String) {
        remarks.append(line.cut(utf8: Self.remarkBytes))
    }

    /// Counts one that matched; whether it is to be asked for again.
    private mutating func count(_ record: SourceRecord, _ isNew: Bool) -> Bool {
        var counts = ReplayCounts()
        counts.matched = 1
        counts.repeated = isNew ? 0 : 1
        progress.count(record.partition, counts)
        return isNew
    }

    // MARK: Dead letters

    private mutating func takeLetter(
        _ record: SourceRecord, _ isKnown: Bool, _ before: PartitionProgress, _ within: Int64?
    ) {
        let letter: DeadLetter
        do throws(RecordError) {
            letter = try DeadLetter(
                key: record.key.baseAddress == nil ? nil : Array(record.key),
                value: record.value.baseAddress == nil ? nil : Array(record.value),
                headers: record.headers.map {
                    HeaderField(String(decoding: $0.name, as: UTF8.self), Array($0.value))
                })
        } catch {
            if !isKnown { spoil(record, "\(error)") }
            return
        }
        guard order.selection.matches(letter, writtenMs: record.timestampMs) else { return }
        let offsets = letter.offset...max(letter.offset, letter.lastOffset ?? letter.offset)
        note(letter.topic, letter.partition, offsets, nil, in: record.partition)
        let log = TopicPartition(letter.topic, letter.partition)
        let isNew = memory.insert(letter)
        // Of one that was begun all was counted but its records. Its topic may have been made anew since, with another
        // one.
        let begun = within.flatMap { $0 >= letter.offset && $0 <= letter.lastOffset ?? .min ? $0 : nil }
        guard !isKnown, begun != nil || count(record, isNew) else { return }
        if begun == nil {
            tally.add(ReplayTally.Row(topic: letter.topic, reason: letter.reason), at: letter.place)
        }
        if let obstacle = Self.obstacle(letter) ?? obstacle(letter.topic) {
            refuse(record, letter.place, obstacle)
        } else if let last = letter.lastOffset {
            let named = order.selection.places.filter { place in
                place.topic == letter.topic && place.partition == letter.partition && place.offset >= letter.offset
                    && place.offset <= last
            }.map(\.offset).sorted()
            piece = Piece(
                source: record.partition, letter: record.offset, log: log, next: begun ?? letter.offset,
                last: named.last ?? last, only: named.isEmpty ? nil : named,
                mark: LetterMark(writtenMs: record.timestampMs, beganMs: progress.facts.beganMs))
            cut()
        } else {
            let isWhole =
                letter.truncatedBytes == nil && letter.truncatedKeyBytes == nil && letter.reason != "unreadable-batch"
            batch.append(
                ReplayBatch.Item(
                    source: record.partition, before: before, log: log, offsets: letter.offset...letter.offset,
                    kind: isWhole
                        ? .letter(whole(record, letter))
                        : .records(
                            LetterMark(letter, writtenMs: record.timestampMs, beganMs: progress.facts.beganMs))))
        }
    }

    /// Why there is no request to be asked for; `nil`: there is one.
    private static func obstacle(_ letter: DeadLetter) -> String? {
        switch letter.reason {
        case "output-too-large", "output-refused": "it is a record that the worker wrote, and no request"
        case "unreadable-headers": "its headers cannot be read, and what it asks for with them is not known"
        case _ where !LogBounds.has(letter): "it does not say where it was"
        case _ where LogBounds.span(letter) == nil: "its offsets are not those of one batch"
        default: nil
        }
    }

    private func whole(_ record: SourceRecord, _ letter: DeadLetter) -> OwnedRecord {
        var topic = letter.topic
        return topic.withUTF8 { topic in
            let place = RequestPlace(
                topic: UnsafeRawBufferPointer(topic), partition: letter.partition, offset: letter.offset, index: 0)
            var writer = ReplayWriter()
            let made = writer.whole(
                key: record.key, value: record.value, headers: record.headers, place: place,
                as: order.topics.kind(of: letter.topic))
            return OwnedRecord(copying: made.key, made.value, headers: made.headers)
        }
    }

    /// Takes as much of a letter's records as fits, some at a time.
    private mutating func cut() {
        guard var piece, var now = progress.partitions[piece.source] else { return }
        while piece.next <= piece.last, batch.requests < requestLimit {
            let offsets = piece.offsets(min(Self.pieceLimit, requestLimit - batch.requests))
            (now.position, now.within) = (piece.letter, piece.next)
            batch.append(
                ReplayBatch.Item(
                    source: piece.source, before: now, log: piece.log, offsets: offsets, kind: .records(piece.mark)))
            piece.next = offsets.upperBound + 1
        }
        let isWhole = piece.next > piece.last
        progress.moved(
            piece.source, to: isWhole ? piece.letter + 1 : piece.letter, within: isWhole ? nil : piece.next)
        self.piece = isWhole ? nil : piece
    }

    /// Places that the selection names have something.
    private mutating func note(
        _ topic: String, _ partition: Int32, _ offsets: ClosedRange<Int64>, _ index: Int32?, in source: TopicPartition
    ) {
        for (number, place) in places.enumerated()
        where offsets.contains(place.offset) && place.partition == partition && place.topic == topic
            && (place.index == nil || index == nil || place.index == index)
        {
            progress.found(number, in: source)
        }
    }
}

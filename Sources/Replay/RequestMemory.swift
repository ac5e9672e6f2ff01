internal import PushRecords

/// Which notifications were taken before: a notification may have several results, after a crash above all, and is
/// asked for once. It knows those of the last `limit` at least and of twice as many at most.
///
/// What stands at one place is told apart by what is said of it: the time and the device, or the letter's offsets and
/// its record. So a result of a log that was there before the topic was made anew, or that nobody knows whose it is,
/// keeps no other one from being taken.
struct RequestMemory {
    /// Some 32 bytes each, in two halves.
    static let limit = 2_000_000

    private struct Entry: Hashable {
        var offset: Int64
        /// Of all else, by a key that only this process knows: two are the same by a chance of 2^-64 at one offset, and
        /// nobody can choose them so.
        var mark: Int
    }

    private let limit: Int
    private var recent: Set<Entry> = []
    private var older: Set<Entry> = []

    init(limit: Int = Self.limit) { self.limit = limit }

    /// Whether it was not known before.
    mutating func insert(_ result: DeliveryResult) -> Bool {
        var mark = Hasher()
        mark.combine(result.request.topic)
        mark.combine(result.request.partition)
        mark.combine(result.request.index)
        let wish = ReplayWish(result)
        mark.combine(RecordTime.checked(wish.requestedAtMs))
        mark.combine(wish.target)
        return insert(Entry(offset: result.request.offset, mark: mark.finalize()))
    }

    /// The same of a record, or batch.
    mutating func insert(_ letter: DeadLetter) -> Bool {
        var mark = Hasher()
        mark.combine(letter.topic)
        mark.combine(letter.partition)
        mark.combine(letter.lastOffset ?? letter.offset)
        mark.combine(RecordTime.checked(letter.timestampMs))
        mark.combine(letter.key)
        mark.combine(letter.value)
        return insert(Entry(offset: letter.offset, mark: mark.finalize()))
    }

    private mutating func insert(_ entry: Entry) -> Bool {
        guard !recent.contains(entry), !older.contains(entry) else { return false }
        if recent.count >= limit {
            older = recent
            recent = []
        }
        recent.insert(entry)
        return true
    }
}

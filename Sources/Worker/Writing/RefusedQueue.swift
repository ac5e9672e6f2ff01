internal import Kafka

/// Records that a topic refused, in the order of their production.
///
/// Those that were refused by themselves stand in a row of their own: each goes from the head of the one row to the end
/// of the other, so that of many none is searched for, and none is moved for another's sake.
struct RefusedQueue {
    /// Where a record stands, as long as none is inserted or removed.
    struct Index {
        fileprivate let isTried: Bool
        fileprivate let inRow: Int
    }

    private var untried = RefusedRow()
    private var tried = RefusedRow()
    private(set) var bytes = 0
    /// Of the untried ones, those that came back among others: whether the refusal is theirs is not known.
    private(set) var unshownCount = 0

    var count: Int { untried.count + tried.count }
    /// Those that were not refused by themselves.
    var untriedCount: Int { untried.count }
    var first: TargetTopic.Refused? { indexOfFirst.map { self[$0] } }

    subscript(index: Index) -> TargetTopic.Refused { index.isTried ? tried[index.inRow] : untried[index.inRow] }

    var indexOfFirst: Index? {
        guard untried.count > 0 else { return tried.count > 0 ? Index(isTried: true, inRow: 0) : nil }
        return Index(isTried: tried.count > 0 && tried[0].history.order < untried[0].history.order, inRow: 0)
    }

    /// The first one of those that were refused least often.
    var leastRefused: Index? {
        if untried.count > 0 { return Index(isTried: false, inRow: 0) }
        return (0..<tried.count).min { tried[$0].history.refusals < tried[$1].history.refusals }
            .map { Index(isTried: true, inRow: $0) }
    }

    /// The first one that came back among others, and was not tried by itself.
    var firstUnshown: Index? {
        guard unshownCount > 0 else { return nil }
        return (0..<untried.count).first { untried[$0].isUnshown }.map { Index(isTried: false, inRow: $0) }
    }

    /// The one that is to be tried next.
    var indexOfEarliest: Index? {
        func earliest(_ row: RefusedRow) -> Int? {
            (0..<row.count).min { row[$0].history.nextTryNs < row[$1].history.nextTryNs }
        }
        let heads = [
            earliest(untried).map { Index(isTried: false, inRow: $0) },
            earliest(tried).map { Index(isTried: true, inRow: $0) },
        ].compactMap(\.self)
        return heads.min {
            (self[$0].history.nextTryNs, self[$0].history.order) < (self[$1].history.nextTryNs, self[$1].history.order)
        }
    }
    var earliest: TargetTopic.Refused? { indexOfEarliest.map { self[$0] } }

    mutating func insert(_ refused: TargetTopic.Refused) {
        bytes += refused.record.byteCount
        if refused.isUnshown { unshownCount += 1 }
        if refused.history.refusals == 0 { untried.insert(refused) } else { tried.insert(refused) }
    }

    mutating func remove(at index: Index) -> TargetTopic.Refused {
        let refused = index.isTried ? tried.remove(at: index.inRow) : untried.remove(at: index.inRow)
        bytes -= refused.record.byteCount
        if refused.isUnshown { unshownCount -= 1 }
        return refused
    }
}

/// Records by the order of their production: cheap at both ends.
private struct RefusedRow {
    private var records: [TargetTopic.Refused?] = []
    private var head = 0

    var count: Int { records.count - head }

    /// - Parameter index: from 0 to `count - 1`.
    subscript(index: Int) -> TargetTopic.Refused {
        guard let refused = records[head + index] else {
            preconditionFailure("behind the head each index has a record")
        }
        return refused
    }

    mutating func insert(_ refused: TargetTopic.Refused) {
        var low = 0
        var high = count
        // New ones come last of all.
        if high == 0 || self[high - 1].history.order < refused.history.order { return records.append(refused) }
        while low < high {
            let middle = (low + high) / 2
            if self[middle].history.order < refused.history.order { low = middle + 1 } else { high = middle }
        }
        if low == 0, head > 0 {
            head -= 1
            records[head] = refused
        } else {
            records.insert(refused, at: head + low)
        }
    }

    mutating func remove(at index: Int) -> TargetTopic.Refused {
        let refused = self[index]
        guard index == 0 else {
            records.remove(at: head + index)
            return refused
        }
        records[head] = nil
        head += 1
        if head == records.count {
            records.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 1_024, 2 * head > records.count {
            records.removeFirst(head)
            head = 0
        }
        return refused
    }
}

extension TargetTopic.Refused {
    fileprivate var isUnshown: Bool { history.refusals == 0 && !history.isNew }
}

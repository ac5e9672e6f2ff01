internal import Kafka

/// Records that a topic refused, in the order of their production.
struct RefusedQueue {
    private var places: [TargetTopic.Refused?] = []
    private var head = 0
    private(set) var bytes = 0
    /// Those that were not refused by themselves.
    private(set) var untriedCount = 0
    /// Of these, those that came back among others: whether the refusal is theirs is not known.
    private(set) var unshownCount = 0

    var count: Int { places.count - head }
    var first: TargetTopic.Refused? { head < places.count ? places[head] : nil }

    /// - Parameter place: from 0 to `count - 1`.
    subscript(place: Int) -> TargetTopic.Refused {
        guard let refused = places[head + place] else { preconditionFailure("a place behind the head holds a record") }
        return refused
    }

    /// The first one of those that were refused least often.
    var leastRefused: Int? { (0..<count).min { self[$0].past.refusals < self[$1].past.refusals } }

    /// The first one that came back among others, and was not tried by itself.
    var firstUnshown: Int? { (0..<count).first { self[$0].isUnshown } }

    /// The one that is to be tried next.
    var placeOfEarliest: Int? { (0..<count).min { self[$0].past.nextTryNs < self[$1].past.nextTryNs } }
    var earliest: TargetTopic.Refused? { placeOfEarliest.map { self[$0] } }

    mutating func insert(_ refused: TargetTopic.Refused) {
        bytes += refused.record.byteCount
        if refused.past.refusals == 0 { untriedCount += 1 }
        if refused.isUnshown { unshownCount += 1 }
        guard let first, first.past.order < refused.past.order else {
            if head > 0 {
                head -= 1
                places[head] = refused
            } else {
                places.insert(refused, at: 0)
            }
            return
        }
        // New ones come last of all; one that comes back was among the first.
        if self[count - 1].past.order < refused.past.order { return places.append(refused) }
        let place = (0..<count).first { self[$0].past.order > refused.past.order }
        places.insert(refused, at: head + (place ?? count))
    }

    /// - Parameter place: from 0 to `count - 1`.
    mutating func remove(at place: Int) -> TargetTopic.Refused {
        let refused = self[place]
        bytes -= refused.record.byteCount
        if refused.past.refusals == 0 { untriedCount -= 1 }
        if refused.isUnshown { unshownCount -= 1 }
        guard place == 0 else {
            places.remove(at: head + place)
            return refused
        }
        places[head] = nil
        head += 1
        if head == places.count {
            places.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 1_024, 2 * head > places.count {
            places.removeFirst(head)
            head = 0
        }
        return refused
    }
}

extension TargetTopic.Refused {
    fileprivate var isUnshown: Bool { past.refusals == 0 && !past.isNew }
}

import PushRecords

/// The demo's three books: what was produced, what the simulator accepted, what was read back; all by a notification's
/// number, so that no two mistakes can cancel each other out.
struct DemoBooks {
    private struct Entry {
        var completion: DemoTraffic.Completion
        var results: UInt8 = 0
        /// Of the last result.
        var outcome: Outcome?
        /// Of all results: sends whose completion is unknown.
        var inDoubt: UInt8 = 0
        var deadTokens: UInt8 = 0
        var deadLetters: UInt8 = 0
        /// Requests the simulator processed, and those it accepted.
        var received: UInt16 = 0
        var accepted: UInt16 = 0
    }

    private var entries: [Entry?]
    /// Notifications and unreadable records that were produced.
    private(set) var produced = 0
    /// Of those produced: how many have a result, or a dead letter.
    private(set) var settled = 0
    /// Of those produced and of those settled: the ones that are answered 429 first, and wait for their retry tier.
    private(set) var producedForRetry = 0
    private(set) var settledAfterRetry = 0
    /// Results by outcome, in `Outcome.allCases`' order.
    private(set) var outcomes = [Int](repeating: 0, count: Outcome.allCases.count)
    private(set) var deadLetters = 0
    /// What was read back, or seen by the simulator, for numbers that nobody produced.
    private(set) var strangers = 0

    init(count: Int) {
        entries = Array(repeating: nil, count: count)
    }

    mutating func noteProduced(_ record: DemoTraffic.Record) {
        for number in record.first..<record.first + record.count {
            entries[number] = Entry(completion: record.completion)
        }
        produced += record.count
        if record.completion == .retried { producedForRetry += record.count }
    }

    /// All that is to settle at its first try has.
    var areFirstTriesSettled: Bool { settled - settledAfterRetry == produced - producedForRetry }

    /// `number` is `nil` when it could not be read.
    private mutating func update(_ number: Int?, _ change: (inout Entry) -> Void) {
        guard let number, entries.indices.contains(number), entries[number] != nil else {
            strangers += 1
            return
        }
        change(&entries[number]!)
    }

    mutating func noteResult(_ number: Int?, _ outcome: Outcome, inDoubt: Int) {
        var isFirst = false
        var isRetried = false
        update(number) { entry in
            isFirst = entry.results == 0 && entry.deadLetters == 0
            isRetried = entry.completion == .retried
            entry.results = entry.results.addingClamped(1)
            entry.outcome = outcome
            entry.inDoubt = entry.inDoubt.addingClamped(inDoubt)
        }
        if isFirst {
            settled += 1
            if isRetried { settledAfterRetry += 1 }
        }
        outcomes[Outcome.allCases.firstIndex(of: outcome)!] += 1
    }

    mutating func noteDeadLetter(_ number: Int?) {
        var isFirst = false
        update(number) { entry in
            isFirst = entry.results == 0 && entry.deadLetters == 0
            entry.deadLetters = entry.deadLetters.addingClamped(1)
        }
        if isFirst { settled += 1 }
        deadLetters += 1
    }

    mutating func noteDeadToken(_ number: Int?) {
        update(number) { $0.deadTokens = $0.deadTokens.addingClamped(1) }
    }

    mutating func noteSimulated(_ number: Int?, received: Int, accepted: Int) {
        update(number) { entry in
            entry.received = UInt16(clamping: Int(entry.received) + received)
            entry.accepted = UInt16(clamping: Int(entry.accepted) + accepted)
        }
    }

    // MARK: Comparing

    /// One line of the comparison: how many notifications of one kind each book has.
    struct Line: Equatable {
        var title: String
        /// Whether notifications of this kind reach the simulator at all.
        var isSent = true
        var produced = 0
        var simulated = 0
        var read = 0
    }

    struct Comparison: Equatable {
        var lines: [Line]
        /// Notifications the simulator accepted more than once, each with a result that says `in_doubt`.
        var repeatedInDoubt = 0
        /// How many notifications are not in all books as they should be, and the first few in words.
        var differences = 0
        var examples: [String] = []

        var agrees: Bool { differences == 0 }
    }

    func compared() -> Comparison {
        var lines = Outcome.allCases.map { Line(title: $0.rawValue, isSent: $0 != .invalid && $0 != .expired) }
        lines.append(Line(title: "dead letters", isSent: false))
        var comparison = Comparison(lines: lines)
        for (number, entry) in entries.enumerated() {
            guard let entry else { continue }
            let place = entry.completion.outcome.flatMap(Outcome.allCases.firstIndex) ?? Outcome.allCases.count
            comparison.lines[place].produced += 1
            if isSimulatedRight(entry) { comparison.lines[place].simulated += 1 }
            if isReadRight(entry) { comparison.lines[place].read += 1 }
            if entry.accepted > 1, Int(entry.accepted) - 1 <= Int(entry.inDoubt) { comparison.repeatedInDoubt += 1 }
            guard let text = difference(entry) else { continue }
            comparison.differences += 1
            if comparison.examples.count < 5 { comparison.examples.append("notification \(number): \(text)") }
        }
        if strangers > 0 {
            comparison.differences += strangers
            comparison.examples.append("\(strangers) that nobody produced")
        }
        comparison.lines.removeAll { $0.produced == 0 }
        return comparison
    }

    /// The simulator accepted what is to be accepted, refused what is to be refused, and never saw the rest. More than
    /// one acceptance is right only where results say that they are in doubt.
    private func isSimulatedRight(_ entry: Entry) -> Bool {
        switch entry.completion {
        case .accepted, .retried: entry.accepted >= 1 && Int(entry.accepted) <= 1 + Int(entry.inDoubt)
        case .unregistered, .rejected: entry.received >= 1 && entry.accepted == 0
        case .invalid, .expired, .deadLetter: entry.received == 0
        }
    }

    private func isReadRight(_ entry: Entry) -> Bool {
        switch entry.completion {
        case .deadLetter: entry.deadLetters == 1 && entry.results == 0
        case .unregistered: entry.results == 1 && entry.outcome == .unregistered && entry.deadTokens == 1
        case .accepted, .retried, .rejected, .invalid, .expired:
            entry.results == 1 && entry.outcome == entry.completion.outcome && entry.deadLetters == 0
                && entry.deadTokens == 0
        }
    }

    private func difference(_ entry: Entry) -> String? {
        guard !isSimulatedRight(entry) || !isReadRight(entry) else { return nil }
        let wanted = entry.completion.outcome?.rawValue ?? "a dead letter"
        let found = entry.outcome.map { " (\($0.rawValue))" } ?? ""
        return "produced to end as \(wanted); the simulator processed \(entry.received), accepted \(entry.accepted); "
            + "read back: results \(entry.results)\(found), dead tokens \(entry.deadTokens), dead letters \(entry.deadLetters)"
    }
}

extension UInt8 {
    fileprivate func addingClamped(_ number: Int) -> UInt8 { UInt8(clamping: Int(self) + number) }
}

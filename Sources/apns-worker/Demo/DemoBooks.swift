import APNsSimulator
import PushRecords

/// The demo's three books: what was produced, what the simulator accepted, what was read back; all by a notification's
/// number, so that no two mistakes can cancel each other out.
struct DemoBooks {
    private struct Entry {
        var completion: DemoTraffic.Completion
        var results: UInt16 = 0
        /// The outcome of the last result.
        var outcome: Outcome?
        /// How many sends without a known answer the results name.
        var inDoubt: UInt16 = 0
        var deadTokens: UInt16 = 0
        var deadLetters: UInt16 = 0
        /// Requests that the simulator processed, and those that it accepted.
        var received: UInt16 = 0
        var accepted: UInt16 = 0

        /// Whether the simulator accepted what is to be accepted, refused what is to be refused, and never saw the
        /// rest. More than one acceptance is right only where results say that they are in doubt.
        var isSimulatedRight: Bool {
            switch completion {
            case .accepted, .retried: accepted >= 1 && accepted - 1 <= inDoubt
            case .unregistered, .rejected: received >= 1 && accepted == 0
            case .invalid, .expired, .deadLetter: received == 0
            }
        }

        var isReadRight: Bool {
            let isDeadLetter = completion == .deadLetter
            return results == (isDeadLetter ? 0 : 1) && outcome == completion.outcome
                && deadLetters == (isDeadLetter ? 1 : 0) && deadTokens == (completion == .unregistered ? 1 : 0)
        }

        var difference: String {
            let wanted = completion.outcome?.rawValue ?? "a dead letter"
            let found = outcome.map { " (\($0.rawValue))" } ?? ""
            return "produced to end as \(wanted); the simulator processed \(received), accepted \(accepted); "
                + "read back: results \(results)\(found), dead tokens \(deadTokens), dead letters \(deadLetters)"
        }
    }

    private var entries: [Entry?]
    /// Notifications and unreadable records that were produced.
    private(set) var produced = 0
    /// How many of them have a result or a dead letter.
    private(set) var settled = 0
    /// How many were produced and settled of those that are answered 429 first, and wait for their retry tier.
    private(set) var producedForRetry = 0
    private(set) var settledAfterRetry = 0
    /// Results by outcome, in the order of `Outcome.allCases`.
    private(set) var outcomes = [Int](repeating: 0, count: Outcome.allCases.count)
    private(set) var deadLetters = 0
    private(set) var deadTokens = 0
    /// What was read back, or seen by the simulator, for numbers that were not produced.
    private var strangers = 0

    init(count: Int) { entries = Array(repeating: nil, count: count) }

    mutating func noteProduced(_ record: DemoTraffic.Record) {
        for number in record.first..<record.first + record.count {
            entries[number] = Entry(completion: record.completion)
        }
        produced += record.count
        if record.completion == .retried { producedForRetry += record.count }
    }

    /// Whether everything has settled that is to settle at its first attempt.
    var areFirstTriesSettled: Bool { settled - settledAfterRetry == produced - producedForRetry }

    /// - Parameter number: `nil` if it could not be read.
    private mutating func update(_ number: Int?, _ change: (inout Entry) -> Void) {
        guard let number, entries.indices.contains(number), let before = entries[number] else {
            strangers += 1
            return
        }
        change(&entries[number]!)
        guard let after = entries[number], before.results + before.deadLetters == 0,
            after.results + after.deadLetters > 0
        else { return }
        settled += 1
        if after.completion == .retried { settledAfterRetry += 1 }
    }

    mutating func noteResult(_ number: Int?, _ outcome: Outcome, inDoubt: Int) {
        update(number) { entry in
            entry.results += 1
            entry.outcome = outcome
            entry.inDoubt += UInt16(clamping: inDoubt)
        }
        outcomes[Outcome.allCases.firstIndex(of: outcome)!] += 1
    }

    mutating func noteDeadLetter(_ number: Int?) {
        update(number) { $0.deadLetters += 1 }
        deadLetters += 1
    }

    mutating func noteDeadToken(_ number: Int?) {
        update(number) { $0.deadTokens += 1 }
        deadTokens += 1
    }

    /// Whether a result says `unregistered` whose dead token was not read yet.
    var lacksDeadTokens: Bool { deadTokens < outcomes[Outcome.allCases.firstIndex(of: .unregistered)!] }

    mutating func noteSimulated(_ number: Int?, received: Int, accepted: Int) {
        update(number) { entry in
            entry.received += UInt16(clamping: received)
            entry.accepted += UInt16(clamping: accepted)
        }
    }

    // MARK: Comparing

    /// When what happened (monotonic).
    struct Clock {
        /// The parts were put together.
        let beganNs: Int64
        /// The worker had its partitions, and the first record was produced.
        var startedNs: Int64?
        /// Everything had settled but what the simulator answers 429 first.
        var firstTriesNs: Int64?
        var endedNs: Int64 = 0
    }

    /// Returns whether the books agree, and what the demo ends with: the three books side by side.
    ///
    /// - Parameter isWhole: false if it was ended before everything could come back.
    func compared(_ clock: Clock, _ totals: Totals, isWhole: Bool) -> (agree: Bool, text: String) {
        var rows = ["", Self.row("", "produced", "simulator", "read back")]
        var simulatedRight = 0
        for outcome in Outcome.allCases.map(Optional.some) + [nil] {
            let entries = entries.compactMap(\.self).filter { $0.completion.outcome == outcome }
            guard !entries.isEmpty else { continue }
            // The simulator never sees requests that are invalid or expired, nor dead letters.
            let isSent = outcome != nil && outcome != .invalid && outcome != .expired
            let simulated = entries.count(where: \.isSimulatedRight)
            if isSent { simulatedRight += simulated }
            rows.append(
                Self.row(
                    outcome?.rawValue ?? "dead letters", grouped(entries.count), isSent ? grouped(simulated) : "-",
                    grouped(entries.count(where: \.isReadRight))))
        }
        rows += [""] + times(clock)
        let more = totals.requests - simulatedRight
        rows.append(
            "\(grouped(totals.requests)) requests on \(grouped(totals.connections)) connections"
                + (more > 0 ? ", \(grouped(more)) of them to send again what was sent before" : ""))
        let repeated = entries.count { entry in entry.map { $0.accepted > 1 && $0.accepted - 1 <= $0.inDoubt } ?? false
        }
        if repeated > 0 {
            rows.append(
                "\(grouped(repeated)) were accepted more than once after a fault; their results say so (in_doubt)")
        }
        var differences = entries.enumerated().compactMap { number, entry in
            entry.flatMap { $0.isSimulatedRight && $0.isReadRight ? nil : "notification \(number): \($0.difference)" }
        }
        let count = differences.count + strangers
        differences = Array(differences.prefix(5))
        if strangers > 0 { differences.append("\(strangers) that were not produced") }
        if count == 0 {
            rows.append("The books agree.")
        } else {
            let lead = isWhole ? "The books" : "It ended before everything had come back, so the books"
            rows += ["\(lead) differ in \(grouped(count)):"] + differences.map { "  \($0)" }
        }
        return (count == 0, rows.joined(separator: "\n"))
    }

    /// How long it took. What is answered 429 first waits for its retry tier at the end, so that the rate is of the
    /// others.
    private func times(_ clock: Clock) -> [String] {
        guard let startedNs = clock.startedNs else { return ["Ended before the worker had joined its groups."] }
        let seconds = Double((clock.firstTriesNs ?? clock.endedNs) - startedNs) / 1e9
        let count = clock.firstTriesNs == nil ? settled : settled - settledAfterRetry
        var lines = [
            "\(grouped(settled)) of \(grouped(produced)) settled",
            "\(grouped(count)) of them in \(tenths(seconds)) s (\(grouped(Int(Double(count) / max(seconds, 0.001))))/s), "
                + "after \(tenths(Double(startedNs - clock.beganNs) / 1e9)) s in which the worker started and joined its groups",
        ]
        if let firstTriesNs = clock.firstTriesNs, settledAfterRetry > 0 {
            lines.append(
                "\(grouped(settledAfterRetry)) that were to be sent again a second later (429): "
                    + "the last \(tenths(Double(clock.endedNs - firstTriesNs) / 1e9)) s after the others")
        }
        return lines
    }

    private static func row(_ title: String, _ columns: String...) -> String {
        columns.reduce(padded(title, to: 14)) { $0 + String(repeating: " ", count: max(0, 13 - $1.count)) + $1 }
    }
}

/// A number with one digit behind the point.
func tenths(_ number: Double) -> String {
    let tenths = Int((number * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
}

/// Digits in groups of three: `1,234,567`.
func grouped(_ number: Int) -> String {
    let digits = Array(String(number))
    return digits.indices.map { index in
        (index > 0 && (digits.count - index) % 3 == 0 ? "," : "") + String(digits[index])
    }.joined()
}

import APNsSimulator
import PushRecords
import Worker

/// The demo's three counts of notifications: produced, received by the simulator, and read back from the output topics.
/// The demo keeps the counts separately for each notification, so that two errors cannot cancel each other out.
struct DemoBooks {
    struct Entry {
        fileprivate var completion: DemoTraffic.Completion
        var results = 0
        var outcome: Outcome?
        /// The sum of `in_doubt` in the results of this notification.
        var inDoubt = 0
        var deadTokens = 0
        var deadLetters = 0
        /// The number of requests for this notification that the simulator received, including those that the simulator
        /// accepted (`accepted`).
        var received = 0
        var accepted = 0

        /// Whether the simulator accepted, rejected or never received the notification as expected. More than one
        /// acceptance is correct only if the notification is in doubt.
        var isSimulatedRight: Bool {
            switch completion {
            case .accepted, .retried: accepted >= 1 && accepted - 1 <= inDoubt
            case .unregistered, .rejected: received >= 1 && accepted == 0
            case .invalid, .expired, .deadLetter: received == 0
            }
        }

        var isReadRight: Bool {
            let isDeadLetter = completion == .deadLetter
            return results == (isDeadLetter ? 0 : 1) && outcome == completion.expected.outcome
                && deadLetters == (isDeadLetter ? 1 : 0) && deadTokens == (completion == .unregistered ? 1 : 0)
        }

        var difference: String {
            let wanted = completion.expected.outcome?.rawValue ?? "a dead letter"
            let found = outcome.map { " (\($0.rawValue))" } ?? ""
            return "expected \(wanted); the simulator processed \(received), accepted \(accepted); "
                + "read back: results \(results)\(found), dead tokens \(deadTokens), dead letters \(deadLetters)"
        }
    }

    /// The time at which the worker had joined its groups and the demo began to produce (monotonic).
    var startedNs: Int64?
    var endedNs: Int64 = 0
    private var entries: [Entry?]
    private(set) var produced = 0
    /// The number of produced notifications with a result or a dead letter.
    private(set) var settled = 0
    /// The number of settled notifications by outcome. Those with a dead letter have no outcome.
    private var outcomes: [Outcome?: Int] = [:]
    private var deadTokens = 0
    /// The number of output records and simulator requests for notifications that the demo did not produce.
    private var strangers = 0

    init(count: Int) { entries = Array(repeating: nil, count: count) }

    mutating func noteProduced(_ record: DemoTraffic.Record) {
        for number in record.first..<record.first + record.count {
            entries[number] = Entry(completion: record.completion)
        }
        produced += record.count
    }

    /// Adds to the counts of a notification.
    ///
    /// - Parameter number: The notification's number, or `nil` if the device token does not contain one.
    mutating func update(_ number: Int?, _ change: (inout Entry) -> Void) {
        guard let number, entries.indices.contains(number), var entry = entries[number] else {
            strangers += 1
            return
        }
        let wasSettled = entry.results + entry.deadLetters > 0
        deadTokens -= entry.deadTokens
        change(&entry)
        deadTokens += entry.deadTokens
        entries[number] = entry
        guard !wasSettled, entry.results + entry.deadLetters > 0 else { return }
        settled += 1
        outcomes[entry.outcome, default: 0] += 1
    }

    /// Whether the demo has read fewer dead tokens than `unregistered` results.
    var lacksDeadTokens: Bool { deadTokens < outcomes[.unregistered, default: 0] }

    func progress(of total: Int, rate: Int, _ worker: PushWorker.Progress) -> String {
        let ended = Outcome.allCases.compactMap { outcome in
            outcomes[outcome].map { "\(outcome.rawValue) \(grouped($0))" }
        }
        let parts =
            [
                "\(settled * 100 / total)% \(grouped(settled))/\(grouped(total))", "\(grouped(rate))/s",
                "in flight \(grouped(worker.inFlight))", "connections \(worker.connections)",
            ] + ended + (outcomes[nil].map { ["dead letters \(grouped($0))"] } ?? [])
        return parts.joined(separator: "  ")
    }

    /// Returns whether the three counts agree, and a table that shows them side by side.
    ///
    /// - Parameter isWhole: Whether the demo ran to its end.
    func compared(_ totals: Totals, isWhole: Bool) -> (agree: Bool, text: String) {
        var rows = ["", Self.row("", "produced", "simulator", "read back")]
        var simulatedRight = 0
        for outcome in Outcome.allCases.map(Optional.some) + [nil] {
            let entries = entries.compactMap(\.self).filter { $0.completion.expected.outcome == outcome }
            guard !entries.isEmpty else { continue }
            // The worker does not send invalid or expired requests, or records that become dead letters.
            let isSent = outcome != nil && outcome != .invalid && outcome != .expired
            let simulated = entries.count(where: \.isSimulatedRight)
            if isSent { simulatedRight += simulated }
            rows.append(
                Self.row(
                    outcome?.rawValue ?? "dead letters", grouped(entries.count), isSent ? grouped(simulated) : "-",
                    grouped(entries.count(where: \.isReadRight))))
        }
        rows += ["", timeLine]
        let more = totals.requests - simulatedRight
        rows.append(
            "\(grouped(totals.requests)) requests on \(grouped(totals.connections)) connections"
                + (more > 0 ? ", of which \(grouped(more)) were resends" : ""))
        let repeated = entries.count { $0.map { $0.accepted > 1 && $0.isSimulatedRight } ?? false }
        if repeated > 0 {
            rows.append(
                "\(grouped(repeated)) notifications were accepted more than once after a fault; their results have in_doubt above 0"
            )
        }
        let differences = entries.enumerated().compactMap { number, entry in
            entry.flatMap { $0.isSimulatedRight && $0.isReadRight ? nil : "  notification \(number): \($0.difference)" }
        }
        let count = differences.count + strangers
        if count == 0 {
            rows.append("The counts agree.")
        } else {
            let lead = isWhole ? "The counts differ" : "The demo ended early, so the counts differ"
            rows += ["\(lead). Differences: \(grouped(count))"] + differences.prefix(5)
            if strangers > 0 {
                rows.append("  \(strangers) results or requests for notifications that the demo did not produce")
            }
        }
        return (count == 0, rows.joined(separator: "\n"))
    }

    private var timeLine: String {
        guard let startedNs else { return "The demo ended before the worker had joined its groups." }
        let seconds = Double(endedNs - startedNs) / 1e9
        return "\(grouped(settled)) of \(grouped(produced)) settled in \(tenths(seconds)) s "
            + "(\(grouped(Int(Double(settled) / max(seconds, 0.001))))/s)"
    }

    private static func row(_ title: String, _ columns: String...) -> String {
        columns.reduce(padded(title, to: 14)) { $0 + String(repeating: " ", count: max(0, 13 - $1.count)) + $1 }
    }
}

func tenths(_ number: Double) -> String {
    let tenths = Int((number * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
}

/// Returns a number with digits in groups of three: `1,234,567`.
func grouped(_ number: Int) -> String {
    number < 1_000 ? "\(number)" : grouped(number / 1_000) + "," + "\(1_000 + number % 1_000)".dropFirst()
}

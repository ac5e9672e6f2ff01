/// One part's counted figures beside the committed ones.
struct Comparison {
    enum Figure: String, CaseIterable {
        case instructions
        case swiftAllocations = "Swift allocations"
        case cAllocations = "C allocations"

        func value(_ figures: PartFigures) -> Double {
            switch self {
            case .instructions: figures.instructions
            case .swiftAllocations: figures.swiftAllocations
            case .cAllocations: figures.cAllocations
            }
        }

        /// The most that is not a failure.
        func limit(_ committed: Double) -> Double {
            switch self {
            case .instructions: committed * (1 + Comparison.instructionMargin)
            case .swiftAllocations, .cAllocations: committed + Comparison.allocationMargin
            }
        }

        /// Less than this is so much better that it should be kept.
        func floor(_ committed: Double) -> Double {
            switch self {
            case .instructions: committed * (1 - Comparison.instructionMargin)
            case .swiftAllocations, .cAllocations: committed - Comparison.allocationMargin
            }
        }

        var digits: Int { self == .instructions ? 1 : 3 }
    }

    enum Verdict: String { case ok, better, failed = "FAILED" }

    struct Row {
        var part: String
        var figure: Figure
        var committed: Double
        var counted: Double

        var limit: Double { figure.limit(committed) }

        var verdict: Verdict {
            if counted > limit { return .failed }
            return counted < figure.floor(committed) ? .better : .ok
        }

        var change: String {
            if figure != .instructions { return (counted >= committed ? "+" : "") + fixed(counted - committed, 3) }
            guard committed > 0 else { return "" }
            let percent = (counted / committed - 1) * 100
            return "\(percent >= 0 ? "+" : "")\(fixed(percent, 2)) %"
        }
    }

    /// Counts repeat to some millionths (what remains is where malloc happens to find room); a change of a twentieth
    /// is above it.
    static let instructionMargin = 0.03
    /// One more allocation in five notifications is above it.
    static let allocationMargin = 0.2

    var rows: [Row] = []
    /// Parts that have no committed figures.
    var missing: [String] = []

    /// - Parameter comparesInstructions: false where another compiler or library made them.
    init(_ counted: [(part: String, figures: PartFigures)], committed: Figures, comparesInstructions: Bool) {
        for (part, figures) in counted {
            guard let before = committed.parts[part] else {
                missing.append(part)
                continue
            }
            for figure in Figure.allCases where comparesInstructions || figure != .instructions {
                rows.append(
                    Row(
                        part: part, figure: figure, committed: figure.value(before),
                        counted: figure.value(figures)))
            }
        }
    }

    var hasFailed: Bool { !missing.isEmpty || rows.contains { $0.verdict == .failed } }

    var text: String {
        var table = TextTable(["part", "figure", "committed", "counted", "change", "limit", ""])
        for row in rows {
            table.add([
                row.part, row.figure.rawValue, fixed(row.committed, row.figure.digits),
                fixed(row.counted, row.figure.digits), row.change, fixed(row.limit, row.figure.digits),
                row.verdict.rawValue,
            ])
        }
        var lines = table.lines
        lines += missing.map { "\($0): FAILED: it has no committed figures; --update writes them" }
        let failed = rows.filter { $0.verdict == .failed }
        for row in failed {
            lines.append(
                "FAILED: \(row.part): \(fixed(row.counted, row.figure.digits)) \(row.figure.rawValue) a notification; "
                    + "committed are \(fixed(row.committed, row.figure.digits)), the limit is "
                    + fixed(row.limit, row.figure.digits))
        }
        if !failed.isEmpty {
            lines.append(
                "Find the change that costs it (apns-bench guard --only \(failed[0].part) --top shows where it goes); "
                    + "if it is worth its price, take the new figures with --update and say why in the commit.")
        } else if rows.contains(where: { $0.verdict == .better }) {
            lines.append("Better than what is committed: keep it so with --update.")
        }
        return lines.joined(separator: "\n") + "\n"
    }
}

import Configuration
import Glibc

/// `apns-bench guard`: what a notification costs in instructions and allocations, against what is committed. It depends
/// on no clock, and so not on what else the machine does.
enum GuardCommand {
    static let name = "guard"

    struct Options: Sendable {
        var figures = "Tests/GuardTests/figures.json"
        var updates = false
        /// `nil`: all of them.
        var only: Part?
        var worker = false
        var form = Form.payload
        var showsTop = false
        /// Of the whole worker's shorter run.
        var count = 10_000
    }

    /// What the whole worker is given.
    enum Form: String, CaseIterable {
        case payload, envelope

        var requests: RequestForm { RequestForm(shape: self == .payload ? .payload : .envelope(tokens: 1)) }
    }

    static let table = OptionTable<Options>(
        command: "apns-bench guard", usage: ["[OPTIONS]", "--worker [--form FORM] [--top]"],
        about: [
            "Counts what one notification takes in each part of the worker, in instructions and allocations, and compares with the committed figures. Each part runs under valgrind's callgrind twice, over different numbers of notifications; the difference is what notifications cost. No clock is looked at: the counts repeat on a busy machine too.",
            "A part fails that takes \(fixed(Comparison.instructionMargin * 100, 0)) % more instructions, or \(fixed(Comparison.allocationMargin, 1)) more allocations a notification, than is committed.",
        ],
        options: [
            .init("figures", value: "FILE", "The committed figures (default Tests/GuardTests/figures.json).") {
                options, text throws(UsageError) in
                options.figures = try OptionValue.text(text)
            },
            .init("update", nil, "Write what was counted to the file, as the figures to commit.") {
                $0.updates = true
            },
            .init("only", value: "PART", "This part alone: \(PartCommand.names).") { options, text throws(UsageError) in
                options.only = try OptionValue.choice(text)
            },
            .init(
                "worker", nil,
                "The whole apns-worker instead, with a Kafka broker and nghttpd: instructions by module and allocations by library, and fails above \(fixed(WorkerProfile.swiftAllocationLimit, 0)) Swift allocation a notification."
            ) { $0.worker = true },
            .init("form", value: "FORM", "What --worker is given: payload (default) or envelope.") {
                options, text throws(UsageError) in
                options.form = try OptionValue.choice(text)
            },
            .init("top", nil, "Show the functions that take most, too.") { $0.showsTop = true },
            .init("count", "n", value: "N", "Notifications of --worker's shorter run (default 10000).") {
                options, text throws(UsageError) in
                options.count = try OptionValue.integer(text, 1_000...1_000_000)
            },
        ],
        notes: """
            --worker needs a broker: KAFKA_BOOTSTRAP_SERVERS names one, or KAFKA_HOME a folder to start one from.
            The figures are those of the build that ./Docker/test makes: run .build/tests/release/apns-bench.
            Exit codes: 0 nothing costs more, 1 something does, or is missing, 64 wrong usage.

            """)

    static func run(_ arguments: [String]) -> Int32 {
        do {
            switch try table.parse(arguments, Options()) {
            case .help:
                say(table.help)
                return 0
            case .values(let options):
                Interruption.holdBack()
                let scratch = try Scratch()
                defer { scratch.remove() }
                return try options.worker ? profileWorker(options, scratch) : compare(options, scratch)
            }
        } catch let error as UsageError {
            complain("\(error)")
            return 64
        } catch {
            complain("apns-bench guard: \(error)")
            return 1
        }
    }

    // MARK: The parts

    private static func compare(_ options: Options, _ scratch: Scratch) throws -> Int32 {
        let here = Toolchain.current(scratch: scratch)
        let isNew = options.updates && (options.only == nil || access(options.figures, F_OK) != 0)
        var committed = try isNew ? Figures(takenWith: here) : Figures(file: options.figures)
        let callgrind = try Callgrind(scratch: scratch)
        let program = try callgrind.readable(Programs.own.path)
        let differences = here.differences(from: committed.takenWith)
        guard !options.updates || differences.isEmpty else {
            throw BenchFailure("another toolchain (\(differences.joined(separator: ", "))): --update all parts at once")
        }
        var counted: [(part: String, figures: PartFigures)] = []
        for part in options.only.map({ [$0] }) ?? Part.allCases {
            progress("counting \(part.rawValue)")
            let profile = try callgrind.profile(part, of: program, count: part.guardCount)
            counted.append((part.rawValue, PartFigures(profile)))
            if options.showsTop { say("\(part.rawValue)\n\(ProfileText.top(of: profile))\n") }
        }
        if options.updates {
            for (part, figures) in counted { committed.parts[part] = figures }
            try write(committed.text, to: options.figures)
            say(committed.text)
            return 0
        }
        if !differences.isEmpty {
            say(
                "instructions are not compared, only allocations: the figures were taken with another toolchain: "
                    + "\(differences.joined(separator: ", "))\n")
        }
        let comparison = Comparison(counted, committed: committed, comparesInstructions: differences.isEmpty)
        say(comparison.text)
        return comparison.hasFailed ? 1 : 0
    }

    private static func write(_ text: String, to path: String) throws(BenchFailure) {
        guard let stream = fopen(path, "we") else {
            throw BenchFailure("cannot write \(path): \(String(cString: strerror(errno)))")
        }
        let bytes = Array(text.utf8)
        let written = fwrite(bytes, 1, bytes.count, stream)
        guard fclose(stream) == 0, written == bytes.count else {
            throw BenchFailure("cannot write \(path): \(String(cString: strerror(errno)))")
        }
    }

    // MARK: The whole worker

    private static func profileWorker(_ options: Options, _ scratch: Scratch) throws -> Int32 {
        let profile = try WorkerProfile(scratch: scratch).measure(options.form.requests, count: options.count)
        say(ProfileText.whole(profile))
        if options.showsTop { say("\n" + ProfileText.top(of: profile)) }
        let limit = WorkerProfile.swiftAllocationLimit
        let isOver = profile.swiftAllocations > limit
        say(
            "\n\(isOver ? "FAILED" : "ok"): \(fixed(profile.swiftAllocations, 3)) Swift allocations a notification, "
                + "the limit is \(fixed(limit, 1))\n")
        return isOver ? 1 : 0
    }
}

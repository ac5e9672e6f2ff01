import CLinux
import Configuration
import Glibc

/// `apns-bench part NAME -n N`: runs one part in this process and says what it took. The guard runs it under callgrind.
enum PartCommand {
    static let name = "part"

    struct Options: Sendable {
        var count = 100_000
    }

    static let table = OptionTable<Options>(
        command: "apns-bench part", usage: ["NAME [-n N]"],
        about: [
            "Runs one part of a notification's way in this process, without Kafka and sockets, in the steady state after a warm-up, and prints one JSON line: the part, how many notifications went through, and the thread's CPU time for them in nanoseconds."
        ] + Part.allCases.map { "\($0.rawValue): \($0.about)." },
        options: [
            .init("count", "n", value: "N", "Notifications, in whole batches (default 100000).") {
                options, text throws(UsageError) in
                options.count = try OptionValue.integer(text, 1...1_000_000_000)
            }
        ])

    /// Turns before anything is counted: buffers have grown, and commits have come back.
    private static let warmUpTurns = 24

    static func run(_ arguments: [String]) -> Int32 {
        do {
            let isNamed = arguments.first.map { !$0.hasPrefix("-") } ?? false
            let part = try isNamed ? Self.part(named: arguments[0]) : nil
            switch try table.parse(Array(arguments.dropFirst(isNamed ? 1 : 0)), Options()) {
            case .help:
                say(table.help)
            case .values(let options):
                guard let part else { throw UsageError("apns-bench part: name one of \(names)") }
                let (count, cpuNs) = try measure(part, count: options.count)
                say("{\"part\":\"\(part.rawValue)\",\"count\":\(count),\"cpu_ns\":\(cpuNs)}\n")
            }
            return 0
        } catch let error as UsageError {
            complain("\(error)")
            return 64
        } catch {
            complain("apns-bench part: \(error)")
            return 1
        }
    }

    static var names: String { Part.allCases.map(\.rawValue).joined(separator: ", ") }

    static func part(named name: String) throws(UsageError) -> Part {
        guard let part = Part(rawValue: name) else {
            throw UsageError("apns-bench: there is no part \(name); it is one of \(names)")
        }
        return part
    }

    private static func measure(_ part: Part, count: Int) throws -> (count: Int, cpuNs: Int64) {
        let counted = Counted(try part.start())
        let run = counted.run
        for _ in 0..<warmUpTurns {
            try run.prepare()
            try run.turn()
        }
        let before = run.count
        var cpuNs: Int64 = 0
        let reference = Unmanaged.passUnretained(counted).toOpaque()
        while run.count - before < count {
            try run.prepare()
            let startNs = threadCPUNs()
            apnsBenchTurn(reference)
            cpuNs += threadCPUNs() - startNs
            if let error = counted.error { throw error }
        }
        return (run.count - before, cpuNs)
    }

    private static func threadCPUNs() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// What `apnsBenchTurn` is handed.
private final class Counted {
    let run: any PartRun
    var error: (any Error)?

    init(_ run: any PartRun) { self.run = run }
}

/// One turn after the warm-up. It has a name of C because callgrind is told by it to count in here and nowhere else
/// (`--toggle-collect`).
@inline(never)
@c func apnsBenchTurn(_ counted: UnsafeMutableRawPointer) {
    let counted = Unmanaged<Counted>.fromOpaque(counted).takeUnretainedValue()
    do { try counted.run.turn() } catch { counted.error = error }
}

import Glibc

/// Runs programs under callgrind (valgrind), which counts instructions and calls and looks at no clock.
struct Callgrind {
    private let valgrind: String
    private let strip: String
    private let scratch: Scratch

    /// - Throws: where there is no valgrind.
    init(scratch: Scratch) throws(BenchFailure) {
        valgrind = try Programs.find("valgrind", package: "valgrind")
        strip = try Programs.find("strip", package: "binutils")
        self.scratch = scratch
        // Swift seeds its hash tables by chance otherwise, so that no two runs would count the same.
        setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
    }

    /// A program that runs; `file` reads what was counted once it has ended.
    struct Run {
        let child: Child
        fileprivate let path: String

        func file() throws(BenchFailure) -> CallgrindFile {
            guard let text = contents(of: path) else {
                throw BenchFailure("callgrind wrote nothing of \(child.name); it said: \(child.output)")
            }
            do throws(CallgrindFile.Failure) {
                return try CallgrindFile(text)
            } catch {
                throw BenchFailure("\(error)")
            }
        }
    }

    /// A copy of a program without its debugging information, as valgrind 3.19 gives up on what Swift 6 writes there.
    func readable(_ program: String) throws(BenchFailure) -> String {
        let copy = scratch.file(program.split(separator: "/").last.map { String($0) } ?? "program")
        let child = try Child("strip", [strip, "-g", "-o", copy, program], scratch: scratch)
        _ = try child.wait(until: Deadline(seconds: 60))
        return copy
    }

    /// - Parameter toggle: counts only within this function.
    func start(_ name: String, _ words: [String], toggle: String? = nil) throws(BenchFailure) -> Run {
        let path = scratch.file("\(name).callgrind")
        // Threads take turns under valgrind; none shall wait for long.
        var all = [
            valgrind, "--tool=callgrind", "--callgrind-out-file=\(path)", "--dump-line=no", "--fair-sched=try",
        ]
        if let toggle { all.append("--toggle-collect=\(toggle)") }
        return Run(child: try Child(name, all + words, scratch: scratch), path: path)
    }

    /// One part at two counts, both at a time.
    ///
    /// - Parameter program: `readable` of this program.
    func profile(_ part: Part, of program: String, count: Int) throws(BenchFailure) -> Profile {
        let counts = [count, 3 * count]
        var runs: [Run] = []
        for count in counts {
            let words = [program, PartCommand.name, part.rawValue, "-n", "\(count)"]
            runs.append(try start("\(part.rawValue)-\(count)", words, toggle: "apnsBenchTurn"))
        }
        var files: [CallgrindFile] = []
        var done: [Int] = []
        for run in runs {
            _ = try run.child.wait(until: Deadline(seconds: 300))
            done.append(try Self.count(in: run.child.output))
            files.append(try run.file())
        }
        return Profile(short: files[0], done[0], long: files[1], done[1])
    }

    /// From the line that `apns-bench part` prints, among those of valgrind.
    private static func count(in output: String) throws(BenchFailure) -> Int {
        for line in output.split(separator: "\n") where line.hasPrefix("{\"part\":") {
            let fields = line.split(separator: ",")
            if let field = fields.first(where: { $0.hasPrefix("\"count\":") }), let count = Int(field.dropFirst(8)) {
                return count
            }
        }
        throw BenchFailure("the part did not say how many notifications it had: \(output)")
    }
}

import CLinux
import Glibc

/// What a process has used by its end.
struct Usage: Sendable {
    var userNs: Int64 = 0
    var systemNs: Int64 = 0
    var voluntarySwitches = 0
    var involuntarySwitches = 0
    /// The most memory it was seen to have resident (VmHWM), in bytes.
    var peakResidentBytes = 0

    var cpuNs: Int64 { userNs + systemNs }
}

/// A program that the bench runs, and what it used. It is killed when this goes, and when the bench itself is killed.
final class Child {
    let name: String
    let processID: pid_t
    private let outputPath: String
    private var usage = Usage()
    private var status: Int32?

    /// How a process ended: its exit code, or minus the number of the signal that killed it.
    private var code: Int32? {
        status.map { $0 & 0x7f == 0 ? ($0 >> 8) & 0xff : -($0 & 0x7f) }
    }

    /// Starts it with our environment; standard output and error go to a file of the scratch directory.
    init(_ name: String, _ words: [String], scratch: Scratch) throws(BenchFailure) {
        self.name = name
        outputPath = scratch.file("\(name).output")
        var words = words
        // util-linux: the kernel kills the child when the thread that started it ends; becomes the program (execve(2)).
        if access("/usr/bin/setpriv", X_OK) == 0 { words = ["/usr/bin/setpriv", "--pdeathsig", "KILL", "--"] + words }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, outputPath, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        // Our own mask holds signals back.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var processID: pid_t = 0
        let error = posix_spawn(
            &processID, words[0], &actions, &attributes, &arguments,
            UnsafeMutablePointer(mutating: linux_environment()))
        guard error == 0 else {
            throw BenchFailure("\(words[0]) cannot be started: \(String(cString: strerror(error)))")
        }
        self.processID = processID
    }

    deinit {
        guard !hasEnded else { return }
        kill(processID, SIGKILL)
        var status: Int32 = 0
        while waitpid(processID, &status, 0) < 0, errno == EINTR {}
    }

    /// Whether it has ended; looks at its memory on the way.
    var hasEnded: Bool {
        if status != nil { return true }
        notePeak()
        var status: Int32 = 0
        var used = rusage()
        guard wait4(processID, &status, WNOHANG, &used) == processID else { return false }
        self.status = status
        usage.userNs = Self.nanoseconds(used.ru_utime)
        usage.systemNs = Self.nanoseconds(used.ru_stime)
        usage.voluntarySwitches = used.ru_nvcsw
        usage.involuntarySwitches = used.ru_nivcsw
        return true
    }

    /// What it has resident now; 0 when it is gone.
    var residentBytes: Int {
        // proc(5), statm: size and resident, in pages.
        let fields = contents(of: "/proc/\(processID)/statm")?.split(separator: " ") ?? []
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) : 0
    }

    /// Not rusage's maximum: that begins with what the bench had resident when it started the child (execve(2)).
    private func notePeak() {
        guard let status = contents(of: "/proc/\(processID)/status") else { return }
        for line in status.split(separator: "\n") where line.hasPrefix("VmHWM:") {
            let kilobytes = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap {
                Int($0)
            }
            usage.peakResidentBytes = (kilobytes ?? 0) * 1_024
        }
    }

    private static func nanoseconds(_ time: timeval) -> Int64 {
        Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_usec) * 1_000
    }

    /// CPU of its living threads so far, by name (`main` is the one it began with); those of one name together, the
    /// largest first.
    func threadTimes() -> [(name: String, ns: Int64)] {
        guard let directory = opendir("/proc/\(processID)/task") else { return [] }
        defer { closedir(directory) }
        var times: [String: Int64] = [:]
        for number in names(in: directory) {
            let path = "/proc/\(processID)/task/\(number)"
            // The first number is the time on a CPU in nanoseconds (Documentation/scheduler/sched-stats.rst).
            guard let name = contents(of: "\(path)/comm")?.split(separator: "\n").first,
                let ns = contents(of: "\(path)/schedstat")?.split(separator: " ").first.flatMap({ Int64($0) })
            else { continue }
            times[number == "\(processID)" ? "main" : String(name), default: 0] += ns
        }
        return times.map { ($0.key, $0.value) }.sorted { $0.ns > $1.ns }
    }

    func signal(_ number: Int32) { if !hasEnded { kill(processID, number) } }

    /// Waits until it has exited with 0.
    ///
    /// - Throws: when it ends otherwise, with the last it said, or not in time.
    func wait(until deadline: Deadline) throws(BenchFailure) -> Usage {
        while !hasEnded {
            guard !deadline.isOver else { throw BenchFailure("\(name) did not end in time") }
            try Interruption.pause(ms: 20)
        }
        guard code == 0 else { throw failure }
        return usage
    }

    /// Why the run cannot go on without it.
    var failure: BenchFailure {
        BenchFailure(
            "\(name) ended (\(code.map { $0 < 0 ? "signal \(-$0)" : "exit code \($0)" } ?? "still running")), and said: "
                + (output.split(separator: "\n").last.map { String($0) } ?? "nothing"))
    }

    /// All it has written.
    var output: String { contents(of: outputPath) ?? "" }
}

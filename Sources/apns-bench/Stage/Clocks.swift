import CLinux
import Glibc

/// The clocks of this machine, which all its processes share.
enum Clocks {
    /// CLOCK_MONOTONIC.
    static var monotonicNs: Int64 { read(CLOCK_MONOTONIC) }

    /// CLOCK_REALTIME.
    static var wallNs: Int64 { read(CLOCK_REALTIME) }
    static var wallMs: Int64 { wallNs / 1_000_000 }

    /// CPU that a process has used so far, all its threads and those that have ended; `nil`: it is gone.
    static func cpuNs(of processID: pid_t) -> Int64? {
        var clock = clockid_t()
        guard clock_getcpuclockid(processID, &clock) == 0 else { return nil }
        var time = timespec()
        guard clock_gettime(clock, &time) == 0 else { return nil }
        return nanoseconds(time)
    }

    /// Sleeps until CLOCK_MONOTONIC says so.
    static func sleep(untilNs: Int64) {
        var time = timespec(tv_sec: Int(untilNs / 1_000_000_000), tv_nsec: Int(untilNs % 1_000_000_000))
        while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nil) == EINTR {}
    }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return nanoseconds(time)
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// A stretch of time, and how much of all processors some processes used in it.
struct ProcessUse {
    private let processIDs: [pid_t]
    private let atStart: (cpuNs: Int64, ns: Int64)

    init(_ processIDs: [pid_t]) {
        self.processIDs = processIDs
        atStart = (Self.cpuNs(processIDs), Clocks.monotonicNs)
    }

    /// From 0 to 1, with one more process that began after it.
    func share(with later: pid_t) -> Double {
        let cpuNs = Self.cpuNs(processIDs + [later]) - atStart.cpuNs
        let ns = (Clocks.monotonicNs - atStart.ns) * Int64(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        return Double(cpuNs) / Double(max(1, ns))
    }

    private static func cpuNs(_ processIDs: [pid_t]) -> Int64 {
        processIDs.reduce(0) { $0 + (Clocks.cpuNs(of: $1) ?? 0) }
    }
}

/// A stretch of time of the whole machine, and how much of its processors was used in it.
struct MachineUse {
    private let atStart: (busy: Int64, all: Int64)

    init() { atStart = Self.read() }

    /// From 0 to 1, by whomever.
    var share: Double {
        let now = Self.read()
        let all = now.all - atStart.all
        return all > 0 ? Double(now.busy - atStart.busy) / Double(all) : 0
    }

    /// The first line of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal, in ticks.
    private static func read() -> (busy: Int64, all: Int64) {
        let line = contents(of: "/proc/stat")?.split(separator: "\n").first ?? ""
        let ticks = line.split(separator: " ").dropFirst().prefix(8).map { Int64($0) ?? 0 }
        guard ticks.count == 8 else { return (0, 0) }
        let all = ticks.reduce(0, +)
        return (all - ticks[3] - ticks[4], all)
    }
}

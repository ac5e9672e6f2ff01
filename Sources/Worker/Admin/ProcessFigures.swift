internal import Configuration
internal import Glibc
internal import Observability

/// Figures of this process as a whole.
struct ProcessFigures: Sendable {
    /// User and system time of all threads.
    var cpuSeconds = 0.0
    /// Resident memory; 0 if it cannot be read.
    var residentBytes = 0
    /// Log lines that standard error did not take.
    var logLinesLost = 0

    static func read() -> ProcessFigures {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        let seconds = Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
        let micros = Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)
        return ProcessFigures(
            cpuSeconds: seconds + micros / 1_000_000, residentBytes: residentBytes(), logLinesLost: Logger.linesLost)
    }

    /// The second number of /proc/self/statm, in pages (proc(5)).
    private static func residentBytes() -> Int {
        guard let bytes = try? readFile("/proc/self/statm") else { return 0 }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        guard words.count > 1, let pages = Int(words[1]) else { return 0 }
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}

internal import Delivery
internal import Glibc
internal import Observability

/// An app in the metrics. One that was taken out of the configuration and came back is one: its counters go on.
struct AppRow {
    let name: String
    let counters: DeliveryCounters.App
    let connections: ConnectionCounts
    let inFlight: Int
    let waiting: Int
    let window: AppTransports.WindowFaults
    /// `nil`: none was ever read.
    let feedback: FeedbackStanding?
    /// Of the one that is there.
    let status: AppStatus?

    static func rows(of snapshot: WorkerSnapshot) -> [AppRow] {
        var rows: [AppRow] = []
        var indexes: [String: Int] = [:]
        for (app, counters) in zip(snapshot.apps, snapshot.counters.apps) {
            let row = AppRow(
                name: app.name, counters: counters, connections: app.connections, inFlight: app.status?.handed ?? 0,
                waiting: app.status?.ready ?? 0, window: app.window, feedback: app.feedback,
                status: app.isRemoved ? nil : app.status)
            if let index = indexes[app.name] {
                rows[index] = rows[index].sum(with: row)
            } else {
                indexes[app.name] = rows.count
                rows.append(row)
            }
        }
        return rows
    }

    private func sum(with other: AppRow) -> AppRow {
        AppRow(
            name: name, counters: counters.sum(with: other.counters),
            connections: connections.sum(with: other.connections), inFlight: inFlight + other.inFlight,
            waiting: waiting + other.waiting, window: window.sum(with: other.window),
            feedback: feedback.map { $0.sum(with: other.feedback) } ?? other.feedback, status: other.status ?? status)
    }
}

/// What is known of this process as a whole, mostly by the kernel.
struct ProcessFigures: Sendable {
    /// User and system time of all threads, in seconds.
    var cpuSeconds: Double
    /// Resident memory in bytes; 0: not known.
    var residentBytes: Int
    /// Log lines that nobody took.
    var logLinesLost: Int

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
        let descriptor = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return 0 }
        defer { close(descriptor) }
        var text = [UInt8](repeating: 0, count: 128)
        let count = text.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
        guard count > 0 else { return 0 }
        let words = String(decoding: text[..<count], as: UTF8.self).split(separator: " ")
        guard words.count > 1, let pages = Int(words[1]) else { return 0 }
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}

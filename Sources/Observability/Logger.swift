import Glibc
import Synchronization

/// Writes log lines. Thread-safe.
///
/// A line below its part's level costs one atomic load, and its fields are not evaluated. `log` writes lines at
/// `warning` and above at most once in ten seconds for the same part, message and subject. The next written line has
/// the number of omitted lines (`repeated`) and their times. Lines below `warning` are limited only with a subject.
///
/// Lines that the sink rejects are lost. Before the next line that the sink accepts, the logger reports the number of
/// lost lines and the time of the first lost line.
package final class Logger: Sendable {
    private struct State {
        var limit = RepeatLimit()
        var line: [UInt8] = []
        /// The number of lost lines that have not been reported yet, and the time of the first of these lines.
        var lost = 0
        var lostSinceMs: Int64 = 0
    }

    private static let lostCount = Atomic(0)

    /// The number of lost lines of all loggers since the process started. Thread-safe.
    package static var linesLost: Int { lostCount.load(ordering: .relaxed) }

    private let levels: Atomic<UInt64>
    private let format: LineFormat
    private let sink: @Sendable ([UInt8]) -> Bool
    private let clock: @Sendable () -> (monotonicNs: Int64, wallMs: Int64)
    private let state = Mutex(State())

    /// - Parameters:
    ///   - sink: Writes complete log lines. It is called in order and never concurrently. Returns false if any part of
    ///     the lines is lost.
    ///   - clock: Returns the current monotonic and wall-clock times. It is called once for each line.
    package init(
        levels: LevelTable = LevelTable(), format: LineFormat = .text,
        sink: @escaping @Sendable ([UInt8]) -> Bool = DescriptorSink.standardError.write,
        clock: @escaping @Sendable () -> (monotonicNs: Int64, wallMs: Int64) = Logger.systemClock
    ) {
        self.levels = Atomic(levels.bits)
        self.format = format
        self.sink = sink
        self.clock = clock
    }

    package static let systemClock: @Sendable () -> (monotonicNs: Int64, wallMs: Int64) = {
        (DescriptorSink.monotonicNs, Timestamp.now().wallMs)
    }

    package func setLevels(_ table: LevelTable) {
        levels.store(table.bits, ordering: .relaxed)
    }

    package func writes(_ level: Level, of part: Part) -> Bool {
        LevelTable(bits: levels.load(ordering: .relaxed)).writes(level, of: part)
    }

    /// - Parameter subject: The app, host or other name that distinguishes similar events for the rate limit. The log
    ///   line does not show it.
    package func log(
        _ level: Level, _ part: Part, _ message: StaticString, about subject: String? = nil,
        _ fields: @autoclosure () -> Fields = [:]
    ) {
        guard writes(level, of: part) else { return }
        submit(level, part, message, fields(), about: subject ?? (level >= .warning ? "" : nil))
    }

    /// Logs a warning about a persistent condition. The caller must limit the rate of such lines, because the logger
    /// does not.
    package func remind(_ part: Part, _ message: StaticString, _ fields: @autoclosure () -> Fields = [:]) {
        guard writes(.warning, of: part) else { return }
        submit(.warning, part, message, fields(), about: nil)
    }

    private func submit(
        _ level: Level, _ part: Part, _ message: StaticString, _ fields: Fields, about subject: String?
    ) {
        let now = clock()
        let line = Line(wallMs: now.wallMs, level: level, part: part, message: message, fields: fields)
        state.withLock { state in
            guard let subject else { return write(line, &state) }
            if let line = state.limit.admit(line, about: subject, nowNs: now.monotonicNs) {
                write(line, &state)
            }
        }
    }

    /// Writes the last omitted line of each kind (part, message and subject), with the number of repetitions, if no
    /// line of this kind was written for ten seconds. Call this method every few seconds. At the end of the process,
    /// call it with `all`, which also writes lines of the last ten seconds.
    package func writeLeftOut(all: Bool = false) {
        let now = clock()
        state.withLock { state in
            for line in state.limit.overdue(nowNs: now.monotonicNs, nowMs: now.wallMs, all: all) {
                write(line, &state)
            }
            _ = reportLost(&state, wallMs: now.wallMs)
        }
    }

    private func write(_ line: Line, _ state: inout State) {
        if reportLost(&state, wallMs: line.wallMs), put(line, &state) { return }
        if state.lost == 0 { state.lostSinceMs = line.wallMs }
        state.lost += 1
        Self.lostCount.wrappingAdd(1, ordering: .relaxed)
    }

    private func reportLost(_ state: inout State, wallMs: Int64) -> Bool {
        guard state.lost > 0 else { return true }
        let line = Line(
            wallMs: wallMs, level: .warning, part: .worker, message: "log lines lost",
            fields: ["lines": .count(state.lost), "since": .text(Timestamp(wallMs: state.lostSinceMs).text)])
        guard put(line, &state) else { return false }
        state.lost = 0
        return true
    }

    private func put(_ line: Line, _ state: inout State) -> Bool {
        state.line.removeAll(keepingCapacity: true)
        line.write(as: format, to: &state.line)
        return sink(state.line)
    }
}

extension Logger {
    package func info(
        _ part: Part, _ message: StaticString, about subject: String? = nil,
        _ fields: @autoclosure () -> Fields = [:]
    ) { log(.info, part, message, about: subject, fields()) }

    package func notice(
        _ part: Part, _ message: StaticString, about subject: String? = nil,
        _ fields: @autoclosure () -> Fields = [:]
    ) { log(.notice, part, message, about: subject, fields()) }

    package func warning(
        _ part: Part, _ message: StaticString, about subject: String? = nil,
        _ fields: @autoclosure () -> Fields = [:]
    ) { log(.warning, part, message, about: subject, fields()) }

    package func error(
        _ part: Part, _ message: StaticString, about subject: String? = nil,
        _ fields: @autoclosure () -> Fields = [:]
    ) { log(.error, part, message, about: subject, fields()) }
}

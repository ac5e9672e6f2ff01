import Glibc
import Synchronization

/// Writes log lines; any thread may use it.
///
/// A line that is not to be written costs one atomic load: its fields are not even made. A line at `warning` and above
/// is written at most once in ten seconds for the same part, message and subject; the next says how many were left out
/// (`repeated`), and when they came. Lower levels are limited in this way only when they name a subject.
///
/// What the sink does not take is lost; the next line that it takes comes after one that says how many were, and since
/// when.
package final class Logger: Sendable {
    private struct State {
        var limit = RepeatLimit()
        var line: [UInt8] = []
        /// Lines that the sink did not take and of which none tells yet, and the time of the first.
        var lost = 0
        var lostSinceMs: Int64 = 0
    }

    private static let lostCount = Atomic(0)

    /// Lines of all loggers that their sinks did not take, since the process began. Any thread.
    package static var linesLost: Int { lostCount.load(ordering: .relaxed) }

    private let levels: Atomic<UInt64>
    private let format: LineFormat
    private let sink: any LogSink
    private let clock: @Sendable () -> (monotonicNs: Int64, wallMs: Int64)
    private let state = Mutex(State())

    /// `clock` is asked once a line that is written.
    package init(
        levels: LevelTable = LevelTable(), format: LineFormat = .text,
        sink: any LogSink = DescriptorSink.standardError,
        clock: @escaping @Sendable () -> (monotonicNs: Int64, wallMs: Int64) = Logger.systemClock
    ) {
        self.levels = Atomic(levels.bits)
        self.format = format
        self.sink = sink
        self.clock = clock
    }

    /// Takes effect for the next line of any thread.
    package func setLevels(_ table: LevelTable) {
        levels.store(table.bits, ordering: .relaxed)
    }

    package func writes(_ level: Level, of part: Part) -> Bool {
        LevelTable(bits: levels.load(ordering: .relaxed)).writes(level, of: part)
    }

    /// `subject` tells like events apart for the limit (an app, a host); it is not written.
    package func log(
        _ level: Level, _ part: Part, _ message: StaticString, about subject: String? = nil,
        _ fields: @autoclosure () -> Fields = [:]
    ) {
        guard writes(level, of: part) else { return }
        let now = clock()
        let line = Line(
            wallMs: now.wallMs, level: level, part: part, message: message, fields: fields(), repeated: 0)
        let isLimited = level >= .warning || subject != nil
        state.withLock { state in
            guard isLimited else { return write(line, &state) }
            if let line = state.limit.admit(line, about: subject ?? "", nowNs: now.monotonicNs) {
                write(line, &state)
            }
        }
    }

    /// A warning of something that lasts. That it is said again is nothing that happened again, so none is counted as
    /// left out.
    ///
    /// - Parameter subject: it is written where no line like it was within ten seconds; `nil`: always, for the caller
    ///   keeps a pace of its own.
    package func remind(
        _ part: Part, _ message: StaticString, about subject: String? = nil, _ fields: @autoclosure () -> Fields = [:]
    ) {
        guard writes(.warning, of: part) else { return }
        let now = clock()
        let line = Line(
            wallMs: now.wallMs, level: .warning, part: part, message: message, fields: fields().withoutCountdowns,
            repeated: 0)
        state.withLock { state in
            guard let subject else { return write(line, &state) }
            if let line = state.limit.admit(line, about: subject, nowNs: now.monotonicNs, isReminder: true) {
                write(line, &state)
            }
        }
    }

    /// Writes what was left out and has had no successor for ten seconds; call it every few seconds. `all`: at the end.
    package func writeLeftOut(all: Bool = false) {
        let now = clock()
        state.withLock { state in
            for line in state.limit.overdue(nowNs: now.monotonicNs, nowMs: now.wallMs, all: all) {
                write(line, &state)
            }
            _ = tellLost(&state, wallMs: now.wallMs)
        }
    }

    private func write(_ line: Line, _ state: inout State) {
        if tellLost(&state, wallMs: line.wallMs), put(line, &state) { return }
        if state.lost == 0 { state.lostSinceMs = line.wallMs }
        state.lost += 1
        Self.lostCount.wrappingAdd(1, ordering: .relaxed)
    }

    /// False: the sink still takes nothing.
    private func tellLost(_ state: inout State, wallMs: Int64) -> Bool {
        guard state.lost > 0 else { return true }
        let line = Line(
            wallMs: wallMs, level: .warning, part: .worker, message: "log lines were lost, since they were not taken",
            fields: ["lines": .count(state.lost), "since": .text(Timestamp(wallMs: state.lostSinceMs).text)],
            repeated: 0)
        guard put(line, &state) else { return false }
        state.lost = 0
        return true
    }

    private func put(_ line: Line, _ state: inout State) -> Bool {
        state.line.removeAll(keepingCapacity: true)
        line.write(as: format, to: &state.line)
        return sink.write(state.line)
    }

    package static let systemClock: @Sendable () -> (monotonicNs: Int64, wallMs: Int64) = {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return (Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec), Timestamp.now().wallMs)
    }
}

extension Logger {
    package func debug(
        _ part: Part, _ message: StaticString, about subject: String? = nil,
        _ fields: @autoclosure () -> Fields = [:]
    ) { log(.debug, part, message, about: subject, fields()) }

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

import Glibc
import Synchronization

/// Writes log lines; any thread may use it.
///
/// A line that is not to be written costs one atomic load: its fields are not even made. A line at `warning` and above
/// is written at most once in ten seconds for the same part, message and subject; the next says how many were left out
/// (`repeated`), and when they came. Lower levels are limited in this way only when they name a subject.
package final class Logger: Sendable {
    private struct State {
        var limit = RepeatLimit()
        var line: [UInt8] = []
    }

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
            guard isLimited else { return write(line, &state.line) }
            if let line = state.limit.admit(line, about: subject ?? "", nowNs: now.monotonicNs) {
                write(line, &state.line)
            }
        }
    }

    /// A warning of something that lasts. That it is said again is nothing that happened again, so none is counted as left out.
    ///
    /// - Parameter subject: it is written where no line like it was within ten seconds; `nil`: always, for the caller keeps a
    ///   pace of its own.
    package func remind(
        _ part: Part, _ message: StaticString, about subject: String? = nil, _ fields: @autoclosure () -> Fields = [:]
    ) {
        guard writes(.warning, of: part) else { return }
        let now = clock()
        let line = Line(
            wallMs: now.wallMs, level: .warning, part: part, message: message, fields: fields().withoutCountdowns,
            repeated: 0)
        state.withLock { state in
            guard let subject else { return write(line, &state.line) }
            if let line = state.limit.admit(line, about: subject, nowNs: now.monotonicNs, isReminder: true) {
                write(line, &state.line)
            }
        }
    }

    /// Writes what was left out and has had no successor for ten seconds; call it every few seconds. `all`: at the end.
    package func writeLeftOut(all: Bool = false) {
        let now = clock()
        state.withLock { state in
            for line in state.limit.overdue(nowNs: now.monotonicNs, nowMs: now.wallMs, all: all) {
                write(line, &state.line)
            }
        }
    }

    private func write(_ line: Line, _ buffer: inout [UInt8]) {
        buffer.removeAll(keepingCapacity: true)
        line.write(as: format, to: &buffer)
        sink.write(buffer)
    }

    package static let systemClock: @Sendable () -> (monotonicNs: Int64, wallMs: Int64) = {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
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

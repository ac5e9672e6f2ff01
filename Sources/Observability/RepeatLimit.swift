/// Lets one of many like events through every ten seconds and counts the others.
///
/// What is alike has the same part, message and subject. At most `capacity` kinds are told apart; while that many are
/// within their ten seconds, those that are new share one kind per message.
struct RepeatLimit {
    struct Key: Hashable {
        var part: Part
        /// The message's address: a literal has one.
        var message: UInt
        var subject: String
    }

    private struct State {
        var writtenAtNs: Int64
        var leftOut: Int
        /// Of those left out.
        var firstMs: Int64 = 0
        var last: Line?
    }

    static let intervalNs: Int64 = 10_000_000_000
    private let capacity: Int
    private var states: [Key: State] = [:]
    /// When kinds whose ten seconds are over are looked for again, so that a flood of kinds stays cheap.
    private var nextPruneNs = Int64.min

    init(capacity: Int = 500) {
        self.capacity = capacity
    }

    /// The line to write now, with the count of those left out before it; `nil`: this one is left out.
    ///
    /// - Parameter isReminder: nothing new happened, so it is not counted.
    mutating func admit(_ line: Line, about subject: String, nowNs: Int64, isReminder: Bool = false) -> Line? {
        var key = unsafe Key(part: line.part, message: UInt(bitPattern: line.message.utf8Start), subject: subject)
        if states[key] == nil, states.count >= capacity {
            prune(nowNs: nowNs)
            if states.count >= capacity { key.subject = "" }
        }
        guard var state = states[key] else {
            // The kinds that share a message's own: as many as the product has messages.
            states[key] = State(writtenAtNs: nowNs, leftOut: 0)
            return line
        }
        defer { states[key] = state }
        guard nowNs - state.writtenAtNs >= Self.intervalNs else {
            if isReminder { return nil }
            if state.leftOut == 0 { state.firstMs = line.wallMs }
            state.leftOut += 1
            state.last = line
            return nil
        }
        var written = line
        written.repeated = state.leftOut
        if let last = state.last { written.leftOutMs = (state.firstMs, last.wallMs) }
        state = State(writtenAtNs: nowNs, leftOut: 0)
        return written
    }

    private mutating func prune(nowNs: Int64) {
        guard nowNs >= nextPruneNs else { return }
        nextPruneNs = nowNs + Self.intervalNs / 10
        states = states.filter { nowNs - $0.value.writtenAtNs < Self.intervalNs || $0.value.leftOut > 0 }
    }

    /// The last of each kind that was left out and whose ten seconds are over (`all`: or not), with their count, as of
    /// now: the lines of a log stand in the order of their times.
    mutating func overdue(nowNs: Int64, nowMs: Int64, all: Bool) -> [Line] {
        var lines: [Line] = []
        for (key, state) in states where all || nowNs - state.writtenAtNs >= Self.intervalNs {
            guard state.leftOut > 0, var line = state.last else {
                states[key] = nil
                continue
            }
            line.repeated = state.leftOut
            line.leftOutMs = (state.firstMs, line.wallMs)
            line.fields = line.fields.withoutCountdowns
            lines.append(line)
            states[key] = State(writtenAtNs: nowNs, leftOut: 0)
        }
        lines.sort { $0.wallMs < $1.wallMs }
        for index in lines.indices { lines[index].wallMs = nowMs }
        return lines
    }
}

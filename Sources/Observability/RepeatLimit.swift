/// A rate limit that admits one of many equal lines every ten seconds and counts the omitted ones. Lines are equal if
/// they have the same part, message and subject. Up to `capacity` combinations are limited separately. Beyond that, all
/// new subjects of a message are limited together.
struct RepeatLimit {
    private struct Key: Hashable {
        var part: Part
        /// The address of the message's static string, which identifies the message.
        var message: UInt
        var subject: String
    }

    private struct State {
        var writtenAtNs: Int64
        /// The last omitted line of this kind, with the number and the summed counts of all omitted lines.
        var last: Line?
    }

    private static let intervalNs: Int64 = 10_000_000_000
    private static let capacity = 500
    private var states: [Key: State] = [:]

    /// Returns the line to write now, with the count of the lines omitted before it, or `nil` to omit this line.
    mutating func admit(_ line: Line, about subject: String, nowNs: Int64) -> Line? {
        var line = line
        var key = unsafe Key(part: line.part, message: UInt(bitPattern: line.message.utf8Start), subject: subject)
        // New subjects of a message share one key from here on, so the number of keys stays bounded.
        if states.count >= Self.capacity, states[key] == nil { key.subject = "" }
        let last = states[key]?.last
        if let last { line.fields.add(last.fields) }
        let earlier = last?.leftOut
        guard let state = states[key], nowNs - state.writtenAtNs < Self.intervalNs else {
            states[key] = State(writtenAtNs: nowNs)
            line.leftOut = earlier
            return line
        }
        line.leftOut = .init(
            count: (earlier?.count ?? 0) + 1, firstMs: earlier?.firstMs ?? line.wallMs, lastMs: line.wallMs)
        states[key]?.last = line
        return nil
    }

    /// Returns the last omitted line of each kind that was last written at least ten seconds ago, or of every kind if
    /// `all` is true. Each line has the count of omitted lines. Its time is the current time, so that the log stays in
    /// chronological order.
    mutating func overdue(nowNs: Int64, nowMs: Int64, all: Bool) -> [Line] {
        var lines: [Line] = []
        for (key, state) in states where all || nowNs - state.writtenAtNs >= Self.intervalNs {
            guard var line = state.last else {
                states[key] = nil
                continue
            }
            line.fields = line.fields.withoutCountdowns
            lines.append(line)
            states[key] = State(writtenAtNs: nowNs)
        }
        lines.sort { $0.wallMs < $1.wallMs }
        for index in lines.indices { lines[index].wallMs = nowMs }
        return lines
    }
}

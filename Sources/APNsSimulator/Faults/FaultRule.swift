/// A fault that comes again and again: at every so many requests, or after every so much time.
package struct FaultRule: Hashable, Sendable {
    package enum Every: Hashable, Sendable {
        /// Counted over all connections.
        case requests(Int)
        /// A fault of the connection befalls every connection; a fault of a request the next request.
        case time(ns: Int64)
    }

    package var fault: Fault
    package var every: Every

    package init(fault: Fault, every: Every) {
        self.fault = fault
        self.every = every
    }

    /// `FAULT@1000` (every thousand requests) or `FAULT@5s`; FAULT as `Fault(name:)` reads it.
    /// Throws one line that says what is wrong.
    package init(text: String) throws(SimulatorError) {
        guard let at = text.lastIndex(of: "@") else {
            throw SimulatorError(
                "fault '\(text)': write FAULT@COUNT or FAULT@TIME, such as goaway@10000 or cut-after@5s")
        }
        let name = String(text[..<at])
        let pace = text[text.index(after: at)...]
        guard let fault = Fault(name: name) else {
            throw SimulatorError("fault '\(text)': there is no fault '\(name)'")
        }
        self.fault = fault
        if let count = Int(pace), count > 0 {
            every = .requests(count)
        } else if let ns = durationNs(pace), ns >= 1_000_000 {
            every = .time(ns: ns)
        } else {
            throw SimulatorError(
                "fault '\(text)': '\(pace)' is neither a number of requests nor a time of at least 1ms")
        }
    }

    package var text: String {
        switch every {
        case .requests(let count): "\(fault.name)@\(count)"
        case .time(let ns): "\(fault.name)@\(durationText(ns))"
        }
    }
}

/// Wrong options, or something the simulator needs and cannot have; one line.
package struct SimulatorError: Error, Equatable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// When each rule comes due: a value, driven by requests and time. One thread.
struct FaultSchedule {
    private(set) var rules: [FaultRule]
    /// Requests until a rule by count is due, by place; unused for rules by time.
    private var left: [Int]
    /// When a rule by time is due next; unused for rules by count.
    private var dueNs: [Int64]
    /// Faults of requests whose time came; the next requests get them. At most one of each rule.
    private var waiting: [Fault] = []

    init(rules: [FaultRule], nowNs: Int64) {
        self.rules = rules
        left = rules.map { if case .requests(let count) = $0.every { count } else { 0 } }
        dueNs = rules.map { if case .time(let ns) = $0.every { nowNs + ns } else { .max } }
    }

    /// When `fire` should be called next; `.max`: never.
    var nextDueNs: Int64 { dueNs.min() ?? .max }

    /// Returns the fault of the request that has just arrived, if one is due.
    mutating func forRequest() -> Fault? {
        var fault: Fault?
        for index in rules.indices {
            guard case .requests(let count) = rules[index].every else { continue }
            left[index] -= 1
            if left[index] <= 0 {
                left[index] = count
                // Two at once: the one that stands first; the other has had its turn.
                fault = fault ?? rules[index].fault
            }
        }
        if fault == nil, !waiting.isEmpty { fault = waiting.removeFirst() }
        return fault
    }

    /// Moves rules whose time has come on; what befalls all connections now is returned.
    mutating func fire(nowNs: Int64) -> [Fault] {
        var now: [Fault] = []
        for index in rules.indices where dueNs[index] <= nowNs {
            guard case .time(let ns) = rules[index].every else { continue }
            dueNs[index] = nowNs + ns
            let fault = rules[index].fault
            if fault.isOfConnection { now.append(fault) } else if !waiting.contains(fault) { waiting.append(fault) }
        }
        return now
    }
}

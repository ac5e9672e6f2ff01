import Glibc

/// A rule that injects a fault into every Nth request or at a fixed time interval.
package struct FaultRule: Hashable, Sendable {
    enum Every: Hashable, Sendable {
        /// The number of requests from one injection to the next, counted over all connections.
        case requests(Int)
        /// The time between two injections, into all connections or into the next request (`Fault.isOfConnection`).
        case time(ns: Int64)
    }

    let fault: Fault
    let every: Every

    /// Parses `FAULT@1000` (every 1000th request) or `FAULT@5s` (every 5 s). FAULT is a name that `Fault(name:)`
    /// accepts. Throws a one-line error.
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

    var text: String {
        switch every {
        case .requests(let count): "\(fault.name)@\(count)"
        case .time(let ns): "\(fault.name)@\(durationText(ns))"
        }
    }
}

/// A one-line error about invalid options, or about a resource that the simulator cannot use, such as a file or port.
package struct SimulatorError: Error, Equatable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }

    /// Creates an error that consists of the given text and the text of `errno`.
    init(errno what: String) { self.init("\(what): \(String(cString: strerror(errno)))") }
}

/// The schedule that decides when each rule is due, by request count or time. Not thread-safe.
struct FaultSchedule {
    private(set) var rules: [FaultRule]
    /// The number of requests until each count-based rule is due. Unused for time-based rules.
    private var left: [Int]
    /// The time at which each time-based rule is due, in monotonic nanoseconds. Unused for count-based rules.
    private var dueNs: [Int64]
    /// The request faults of time-based rules that have become due, without duplicates. The next requests get them.
    private var waiting: [Fault] = []

    init(rules: [FaultRule], nowNs: Int64) {
        self.rules = rules
        left = rules.map { if case .requests(let count) = $0.every { count } else { 0 } }
        dueNs = rules.map { if case .time(let ns) = $0.every { nowNs + ns } else { .max } }
    }

    /// The time at which to call `fire` next, or `.max` if there is no time-based rule.
    var nextDueNs: Int64 { dueNs.min() ?? .max }

    /// Returns the fault for the request that has just arrived, if one is due.
    mutating func forRequest() -> Fault? {
        var fault: Fault?
        for index in rules.indices {
            guard case .requests(let count) = rules[index].every else { continue }
            left[index] -= 1
            if left[index] <= 0 {
                left[index] = count
                // If two rules are due, the first applies and the other is skipped.
                fault = fault ?? rules[index].fault
            }
        }
        if fault == nil, !waiting.isEmpty { fault = waiting.removeFirst() }
        return fault
    }

    /// Reschedules the time-based rules that are due. Returns their connection faults, which the caller must inject
    /// into all connections now, and keeps their request faults for the next requests.
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

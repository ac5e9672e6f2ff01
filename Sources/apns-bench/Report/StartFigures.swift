import JSON

/// How soon a worker is at work, in milliseconds.
struct StartFigures {
    static let firstSendBudget = 500.0
    static let restartBudget = 1_000.0

    /// From just before it was started to the first result's `settled_at_ms`.
    var toFirstResultMs: Int64
    /// From the same to its log line that partitions were assigned.
    var toAssignmentMs: Int64
    /// From that line to the first `sent_at_ms`.
    var assignmentToFirstSendMs: Int64
    /// With static membership: from kill -9 in the middle to the first result of the worker started at once.
    var killToFirstResultMs: Int64

    var findings: [Finding] {
        [
            Finding(
                "assignment_to_first_send_ms", "group assigned to first send, ms", Double(assignmentToFirstSendMs),
                .atMost, Self.firstSendBudget, digits: 0),
            Finding(
                "kill_to_first_result_ms", "kill -9 and restart to first result, ms", Double(killToFirstResultMs),
                .atMost, Self.restartBudget, digits: 0),
        ]
    }

    var lines: [String] {
        var table = TextTable(["start", "ms", "budget"])
        table.add(["run to first result", "\(toFirstResultMs)", ""])
        table.add(["run to group assigned", "\(toAssignmentMs)", ""])
        table.add(["group assigned to first send", "\(assignmentToFirstSendMs)", findings[0].verdict])
        table.add([
            "kill -9 and restart to first result, static member", "\(killToFirstResultMs)", findings[1].verdict,
        ])
        return table.lines
    }

    func write(to json: inout JSONWriter) {
        json.member("run_to_first_result_ms", toFirstResultMs)
        json.member("run_to_assignment_ms", toAssignmentMs)
        json.member("assignment_to_first_send_ms", assignmentToFirstSendMs)
        json.member("kill_to_first_result_ms", killToFirstResultMs)
    }
}

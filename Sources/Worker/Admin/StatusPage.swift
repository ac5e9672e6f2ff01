internal import Delivery
internal import PushRecords

/// The HTML page at `/`: the problems with advice, then counts and tables. The page has no scripts and reloads every
/// five seconds. `/status` has the same data as JSON.
struct StatusPage {
    private(set) var text = ""
    private let snapshot: WorkerSnapshot

    init(_ snapshot: WorkerSnapshot) {
        self.snapshot = snapshot
        let group = Self.escaped(snapshot.groupID)
        text = """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
            <meta name="viewport" content="width=device-width"><title>\(snapshot.health): apns-worker \(group)</title>
            <style>\(Self.style)</style></head><body>
            <h1>apns-worker <small>group \(group)</small> <strong class="\(snapshot.health)">\(headline)</strong></h1>

            """
        writeProblems()
        writeNumbers()
        writeApps()
        writePartitions(of: .requests)
        writePartitions(of: .retries)
        text += """
            <p class="quiet">Started \(Self.duration(snapshot.takenMs - snapshot.startedMs)) ago. See also
            <a href="/status">/status</a>, <a href="/metrics">/metrics</a>, <a href="/readyz">/readyz</a>,
            <a href="/livez">/livez</a>.</p>
            </body></html>

            """
    }

    private static let style = """
        :root { color-scheme: light dark; --line: #8884; --bad: #c4302b; --good: #1a7f37 }
        body { font: 14px/1.5 system-ui, sans-serif; margin: 1.5em auto; max-width: 90em; padding: 0 1em }
        h1 { font-size: 1.4em } h1 small { font-weight: normal; opacity: .7 } h2 { font-size: 1.1em; margin: 1.5em 0 .3em }
        h1 strong { float: right } .fine { color: var(--good) } .degraded, .starting, .bad { color: var(--bad) }
        .numbers { display: flex; flex-wrap: wrap; gap: .5em 2.2em; padding: 0; list-style: none }
        .numbers b { display: block; font-size: 1.5em; font-weight: 600 } .quiet, .numbers { opacity: .85 }
        .problem { border-left: 4px solid var(--bad); padding: .3em .8em; margin: .5em 0 } .problem p { margin: 0 }
        .wide { overflow-x: auto } table { border-collapse: collapse; min-width: 100% }
        th, td { padding: .25em .7em .25em 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
        th { font-weight: 600 } th:first-child, td:first-child { text-align: left } summary { cursor: pointer }
        """

    private var headline: String {
        switch snapshot.health {
        case "fine": "healthy"
        case "degraded": snapshot.problems.count == 1 ? "1 problem" : "\(snapshot.problems.count) problems"
        default: "\(snapshot.phase)"
        }
    }

    private mutating func writeProblems() {
        for problem in snapshot.problems {
            let since = Self.duration(snapshot.takenMs - problem.sinceMs)
            text += """
                <div class="problem"><p><b>\(Self.escaped("\(problem.subject)"))</b>: \(Self.escaped(problem.text))
                <span class="quiet">(\(problem.kind.rawValue), for \(since))</span></p>
                <p>What to do: \(Self.escaped(problem.advice)).</p></div>

                """
        }
        if snapshot.problemsLeftOut > 0 { text += "<p>\(snapshot.problemsLeftOut) more problems are not shown.</p>\n" }
    }

    private mutating func writeNumbers() {
        let settled = snapshot.counters.notificationsSettled
        let numbers: [(String, Int64?)] = [
            ("requests not consumed", snapshot.lag(of: .requests)),
            ("in retry topics", snapshot.lag(of: .retries)),
            ("notifications open", Int64(snapshot.gauges.openNotifications)),
            ("settled", Int64(settled)), ("dead letters", Int64(snapshot.counters.deadLetters)),
            ("records not acknowledged", Int64(snapshot.unacknowledged)),
            ("restarts after a crash", Int64(snapshot.crashes.total)),
        ]
        let items = numbers.map { "<li><b>\(Self.number($1))</b>\($0)</li>" }.joined(separator: "\n")
        text += "<ul class=\"numbers\">\n\(items)\n</ul>\n"
    }

    private mutating func writeApps() {
        text += "<h2>Apps</h2>\n"
        var rows: [[String]] = []
        for (app, counters) in zip(snapshot.apps, snapshot.counters.apps) where !app.isRemoved {
            let connections = app.standing.connections
            var row = [
                Self.escaped(app.name), "\(app.environment.text)", app.state, Self.number(connections.open),
                Self.number(connections.streams), Self.number(app.status?.handed ?? 0),
                Self.number(app.status?.ready ?? 0),
            ]
            row += Outcome.allCases.map { Self.number(counters.outcomes[$0.index]) }
            row += [Self.number(counters.inDoubt), Self.number(counters.held)]
            rows.append(row)
        }
        let columns = ["app", "environment", "state", "connections", "streams", "in flight", "waiting"]
        writeTable(columns + Outcome.allCases.map(\.rawValue) + ["in doubt", "deferred"], rows)
    }

    /// Writes a table of partitions by descending lag, with unknown lags first. The table of retry topics is collapsed,
    /// because a lag there is normal: retry records wait until they are due.
    private mutating func writePartitions(of role: WorkerSnapshot.Role) {
        let partitions = snapshot.partitions.filter { $0.role == role }
        let rows = partitions.sorted { $0.lag ?? .max > $1.lag ?? .max }.map { partition in
            let status = partition.status
            return [
                Self.escaped("\(status.topic) [\(status.partition)]"), Self.number(partition.lag),
                Self.number(Int64(status.openRecords)), Self.number(Int64(status.openNotifications)),
                status.oldestOpenMs.map { Self.duration(snapshot.takenMs - $0) } ?? "", Self.number(status.committed),
                status.isDraining ? "draining" : "",
            ]
        }
        let columns = ["partition", "lag", "open records", "open notifications", "oldest open", "committed offset", ""]
        switch role {
        case .requests:
            text += "<h2>Request topics</h2>\n"
            writeTable(columns, rows)
        case .retries:
            text += "<details><summary>Retry topics: \(rows.count) partitions</summary>\n"
            writeTable(columns, rows)
            text += "</details>\n"
        }
    }

    private mutating func writeTable(_ columns: [String], _ rows: [[String]]) {
        guard !rows.isEmpty else { return text += "<p class=\"quiet\">none</p>\n" }
        let head = columns.map { "<th>\($0)</th>" }.joined()
        let body = rows.map { row in "<tr>\(row.map { "<td>\($0)</td>" }.joined())</tr>" }.joined(separator: "\n")
        text += "<div class=\"wide\"><table><tr>\(head)</tr>\n\(body)</table></div>\n"
    }

    // MARK: Formatting

    /// Returns the number with thousands separators, or `unknown` for `nil`.
    private static func number(_ value: (some BinaryInteger)?) -> String {
        guard let value else { return "unknown" }
        var digits = Array("\(value.magnitude)")
        for place in stride(from: digits.count - 3, to: 0, by: -3) { digits.insert(",", at: place) }
        return (value < 0 ? "-" : "") + String(digits)
    }

    /// Returns a duration as text in its two largest units: `5 min 3 s`.
    private static func duration(_ ms: Int64) -> String {
        let seconds = max(0, ms / 1_000)
        return switch seconds {
        case ..<60: "\(seconds) s"
        case ..<3_600: "\(seconds / 60) min \(seconds % 60) s"
        case ..<86_400: "\(seconds / 3_600) h \(seconds % 3_600 / 60) min"
        default: "\(seconds / 86_400) d \(seconds % 86_400 / 3_600) h"
        }
    }

    private static func escaped(_ text: String) -> String {
        // A peer's text may contain control characters, which HTML does not allow.
        let printable = text.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }
        return String(String.UnicodeScalarView(printable))
            .replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;")
    }
}

extension WorkerSnapshot.App {
    fileprivate var state: String {
        guard let status else { return "starting" }
        if status.isPaused { return "paused" }
        if status.isCredentialRefused { return #"<b class="bad">credential rejected</b>"# }
        if status.isCutOff { return #"<b class="bad">unreachable</b>"# }
        return standing.connections.open > 0 ? "connected" : "no connection"
    }
}

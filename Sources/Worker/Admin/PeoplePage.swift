internal import Delivery
internal import PushRecords

/// A snapshot for people: `/`, one page without scripts that renews itself every two seconds.
struct PeoplePage {
    let text: String

    init(_ snapshot: WorkerSnapshot) {
        text = """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">
            <title>apns-worker: \(Self.escaped(snapshot.groupID))</title>
            <style>
            body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }
            table { border-collapse: collapse; margin: 0.5em 0 2em; }
            th, td { padding: 0.2em 0.9em 0.2em 0; text-align: right; border-bottom: 1px solid #ddd; }
            th:first-child, td:first-child { text-align: left; }
            .degraded, .starting { color: #b00; } .fine { color: #070; }
            </style></head><body>
            <h1>apns-worker <small>group \(Self.escaped(snapshot.groupID))</small></h1>
            <p>It is <strong class="\(snapshot.health)">\(snapshot.health)</strong>, \(Self.phase(snapshot)).
            See also <a href="/status">/status</a>, <a href="/metrics">/metrics</a>, <a href="/readyz">/readyz</a>,
            <a href="/livez">/livez</a>.</p>
            \(Self.problems(snapshot))
            <h2>Apps</h2>
            \(Self.apps(snapshot))
            <h2>Partitions</h2>
            \(Self.partitions(snapshot))
            </body></html>

            """
    }

    private static func phase(_ snapshot: WorkerSnapshot) -> String {
        snapshot.waitingFor.isEmpty ? snapshot.phase.rawValue : "waiting: \(escaped(snapshot.waitingFor))"
    }

    private static func problems(_ snapshot: WorkerSnapshot) -> String {
        guard !snapshot.problems.isEmpty else { return "" }
        var items = snapshot.problems.map {
            "<li><strong>\(escaped($0.subject))</strong>: \(escaped($0.text)); \(escaped($0.advice))</li>"
        }
        if snapshot.problemsLeftOut > 0 { items.append("<li>and \(snapshot.problemsLeftOut) more</li>") }
        return "<ul class=\"degraded\">\(items.joined())</ul>"
    }

    private static func apps(_ snapshot: WorkerSnapshot) -> String {
        let outcomes = Outcome.allCases.map { "<th>\($0.rawValue)</th>" }.joined()
        var rows = "<tr><th>app</th><th>connections</th><th>in flight</th><th>waiting</th>\(outcomes)"
        rows += "<th>in doubt</th><th>held</th></tr>\n"
        for (index, app) in snapshot.apps.enumerated() where !app.isRemoved {
            let counters = snapshot.counters.apps[index]
            let counts =
                [app.connections.open, app.status?.handed ?? 0, app.status?.ready ?? 0]
                + Outcome.allCases.map { counters.outcomes[$0.index] } + [counters.inDoubt, counters.held]
            let cells = counts.map { "<td>\($0)</td>" }.joined()
            let pause = app.status?.isPaused == true ? ", <strong>paused</strong>" : ""
            rows += "<tr><td>\(escaped(app.name)) (\(app.environment.text))\(pause)</td>\(cells)</tr>\n"
        }
        return "<table>\(rows)</table>"
    }

    private static func partitions(_ snapshot: WorkerSnapshot) -> String {
        guard !snapshot.partitions.isEmpty else { return "<p>None is assigned to this worker.</p>" }
        var rows = "<tr><th>partition</th><th>lag</th><th>open</th><th>oldest open</th><th>committed</th></tr>\n"
        for partition in snapshot.partitions {
            let status = partition.status
            let age = status.oldestOpenMs.map { "\(RecordTime.age(of: $0, nowMs: snapshot.takenMs)) ms" } ?? ""
            let lag = partition.lag.map { "\($0)" } ?? ""
            let committed = status.committed.map { "\($0)" } ?? ""
            let name = "\(escaped(status.topic))/\(status.partition)\(status.isDraining ? " (draining)" : "")"
            rows += "<tr><td>\(name)</td><td>\(lag)</td><td>\(status.openNotifications)</td>"
            rows += "<td>\(age)</td><td>\(committed)</td></tr>\n"
        }
        return "<table>\(rows)</table>"
    }

    private static func escaped(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

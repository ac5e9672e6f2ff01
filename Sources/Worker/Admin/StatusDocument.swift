internal import Delivery
internal import JSON
internal import PushRecords

/// The members of `/status`, from which its JSON and the page for people are made. Members are only ever added.
enum StatusValue {
    typealias Members = [(name: String, value: StatusValue)]

    case text(String)
    case number(Int64?)
    case flag(Bool)
    case object(Members)
    case list([StatusValue])

    static func count(_ number: Int) -> Self { .number(Int64(number)) }

    /// The value as `/status` serves it.
    var json: String {
        var json = JSONWriter(capacity: 4_096)
        write(to: &json)
        return json.text + "\n"
    }

    private func write(to json: inout JSONWriter) {
        switch self {
        case .text(let text): json.value(text)
        case .number(let number?): json.value(number)
        case .number(nil): json.null()
        case .flag(let flag): json.value(flag)
        case .object(let members):
            json.beginObject()
            for (name, value) in members {
                json.name(name)
                value.write(to: &json)
            }
            json.endObject()
        case .list(let values):
            json.beginArray()
            for value in values { value.write(to: &json) }
            json.endArray()
        }
    }
}

extension WorkerSnapshot {
    var status: StatusValue.Members {
        var members: StatusValue.Members = [("health", .text(health)), ("phase", .text(phase.rawValue))]
        members += [
            ("group_id", .text(groupID)), ("started_at_ms", .number(startedMs)), ("at_ms", .number(takenMs)),
            ("problems", .list(problems.map(\.status))),
        ]
        if problemsLeftOut > 0 { members.append(("problems_left_out", .count(problemsLeftOut))) }
        let living = zip(apps, counters.apps).filter { !$0.0.isRemoved }
        return members + [
            ("apps", .list(living.map { app, counters in .object(app.status(counters)) })),
            ("partitions", .list(partitions.map(\.members))),
            ("open_notifications", .count(gauges.openNotifications)),
            ("unacknowledged_records", .count(unacknowledged)),
            ("too_large_for_topic", Self.status(tooLarge)), ("rejected_by_topic", Self.status(rejected)),
            ("left_retry_topics", Self.status(leftTiers)), ("crashes", crashes.status),
        ]
    }

    private static func status(_ counts: TopicCounts) -> StatusValue {
        .list(counts.map { .object([("topic", .text($0.topic)), ("records", .count($0.records))]) })
    }
}

extension Problem {
    fileprivate var status: StatusValue {
        .object([
            ("kind", .text(kind.rawValue)), ("subject", .text("\(subject)")), ("text", .text(text)),
            ("advice", .text(advice)), ("since_ms", .number(sinceMs)),
        ])
    }
}

extension WorkerSnapshot.App {
    fileprivate func status(_ counters: DeliveryCounters.App) -> StatusValue.Members {
        let connections = standing.connections
        return [
            ("name", .text(name)), ("environment", .text("\(environment.text)")),
            ("paused", .flag(status?.isPaused ?? false)),
            (
                "connections",
                .object([
                    ("dialing", .count(connections.dialing)), ("open", .count(connections.open)),
                    ("draining", .count(connections.draining)),
                ])
            ),
            ("streams_allowed", .count(connections.streams)), ("in_flight", .count(status?.handed ?? 0)),
            ("waiting", .count(status?.ready ?? 0)),
            ("outcomes", .object(Outcome.allCases.map { ($0.rawValue, .count(counters.outcomes[$0.index])) })),
            ("in_doubt", .count(counters.inDoubt)), ("held", .count(counters.held)),
        ]
    }
}

extension WorkerSnapshot.Partition {
    fileprivate var members: StatusValue {
        .object([
            ("topic", .text(status.topic)), ("partition", .number(Int64(status.partition))),
            ("role", .text(role.rawValue)), ("committed", .number(status.committed)),
            ("watermark", .number(status.watermark)), ("lag", .number(lag)),
            ("open_records", .count(status.openRecords)), ("open_notifications", .count(status.openNotifications)),
            ("oldest_open_ms", .number(status.oldestOpenMs)), ("draining", .flag(status.isDraining)),
        ])
    }
}

extension CrashHistory {
    /// `condemned` lists the records that go to the dead letters unread.
    fileprivate var status: StatusValue {
        var members: StatusValue.Members = [("total", .count(total))]
        if let last = deaths.last {
            members.append(("last_signal", .text(last.signalName)))
            members.append(("last_record", last.places.isEmpty ? .number(nil) : .text(last.record)))
        }
        members.append(("condemned", .list(condemned.map(\.description).sorted().map { .text($0) })))
        return .object(members)
    }
}

/// The page for people at `/`: the members of `/status` as tables, without scripts, renewed every two seconds.
struct StatusPage {
    let text: String

    init(_ snapshot: WorkerSnapshot) {
        let group = Self.escaped(snapshot.groupID)
        var body = ""
        var facts: StatusValue.Members = []
        for (name, value) in snapshot.status {
            guard case .list(let rows) = value else {
                facts.append((name, value))
                continue
            }
            body += "<h2>\(name)</h2>\n\(Self.table(rows))\n"
        }
        text = """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">
            <title>apns-worker: \(group)</title>
            <style>
            body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; }
            table { border-collapse: collapse; margin: 0.5em 0 2em; }
            th, td { padding: 0.2em 0.9em 0.2em 0; text-align: left; border-bottom: 1px solid #ddd; }
            .degraded, .starting { color: #b00; } .fine { color: #070; }
            </style></head><body>
            <h1>apns-worker <small>group \(group)</small></h1>
            <p>It is <strong class="\(snapshot.health)">\(snapshot.health)</strong>.
            See also <a href="/status">/status</a>, <a href="/metrics">/metrics</a>, <a href="/readyz">/readyz</a>,
            <a href="/livez">/livez</a>.</p>
            \(body)<h2>worker</h2>
            \(Self.table([.object(facts)]))
            </body></html>

            """
    }

    /// A row for each value, with the columns of the first one.
    private static func table(_ values: [StatusValue]) -> String {
        let rows = values.map { cells(of: $0, "") }
        guard let first = rows.first else { return "<p>none</p>" }
        let head = first.map { "<th>\($0.column)</th>" }.joined()
        let body = rows.map { row in "<tr>\(row.map { "<td>\(escaped($0.text))</td>" }.joined())</tr>" }
        return "<table><tr>\(head)</tr>\n\(body.joined(separator: "\n"))</table>"
    }

    /// The value's cells: those of an object's members are named by their path.
    private static func cells(of value: StatusValue, _ column: String) -> [(column: String, text: String)] {
        switch value {
        case .text(let text): [(column, text)]
        case .number(let number): [(column, number.map { "\($0)" } ?? "")]
        case .flag(let flag): [(column, flag ? "yes" : "no")]
        case .object(let members):
            members.flatMap { cells(of: $0.value, column.isEmpty ? $0.name : "\(column).\($0.name)") }
        case .list(let values):
            [(column, values.flatMap { cells(of: $0, "") }.map(\.text).joined(separator: ", "))]
        }
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;")
    }
}

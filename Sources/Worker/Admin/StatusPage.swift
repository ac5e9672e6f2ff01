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

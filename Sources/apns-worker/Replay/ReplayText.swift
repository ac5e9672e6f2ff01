import JSON
import PushRecords
import Replay

extension ReplayOrder {
    func progress(_ report: ReplayReport) -> String {
        let (matched, produced) = (report.counts[.matched, default: 0], report.counts[.produced, default: 0])
        return "\(Int(report.part * 100)) % read, \(matched) matched, \(produced) "
            + (isDryRun ? "would be produced again" : "produced again")
            + (report.counts.missed > 0 ? ", \(report.counts.missed) not" : "")
    }

    func text(_ report: ReplayReport, _ seconds: Double) -> String {
        let counts = report.counts
        let things = source == .results ? "results" : "dead letters"
        var parts = ["\(counts[.produced, default: 0]) requests \(isDryRun ? "would be" : "were") produced again"]
        for (kind, words) in [
            (.repeated, "were further \(things) of the same"), (.expired, "have expired and were left out"),
            (.gone, "are gone"), (.unreadable, "cannot be read"), (.refused, "cannot be requested again"),
        ] as [(ReplayOutcome, String)] {
            if let count = counts[kind] { parts.append("\(count) \(words)") }
        }
        let isPart = isDryRun && !report.isDone
        let sum =
            "of \(counts[.matched, default: 0]) \(things) that matched\(isPart ? " so far" : ""): \(parts.joined(separator: ", "))"
        let time = tenths(seconds)
        if isDryRun {
            let end =
                isPart
                ? "; that is not all: \(Int(report.part * 100)) % was read in \(time) s, and not all of their requests"
                : ""
            return "\(sum); nothing was written\(end)\n" + table(report)
        }
        if report.wasDone {
            return "job \(job) was done before, and nothing is produced; \(sum). Another one takes another --name\n"
        }
        return
            "job \(job) \(report.isDone ? "is done" : "is not done") after \(time) s\(report.isResumed ? ", going on with it" : ""); \(sum)\n"
    }

    private func table(_ report: ReplayReport) -> String {
        let rows =
            [["requests", "topic", "app", "outcome", "reason"]]
            + report.tally.rows.map {
                [
                    "\($0.count)", $0.row.topic, $0.row.app ?? "-", $0.row.outcome?.rawValue ?? "-",
                    $0.row.reason ?? "-",
                ].map { printable($0, limit: 100) }
            }
        guard rows.count > 1 else { return "" }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        let text = rows.map { row in
            let cells = row.enumerated().map {
                padded($0.element, to: $0.offset < row.count - 1 ? widths[$0.offset] : 0)
            }
            return "  " + cells.joined(separator: "  ") + "\n"
        }.joined()
        return text + "the first: \(report.tally.first.map { printable($0, limit: 300) }.joined(separator: ", "))\n"
    }

    func json(_ report: ReplayReport, _ seconds: Double) -> String {
        let counts = report.counts
        var json = JSONWriter()
        json.beginObject()
        json.member("job", job)
        json.member("group", group)
        json.member("source", source.rawValue)
        json.member("topic", topic)
        json.member("dry_run", isDryRun)
        json.member("done", report.isDone)
        json.member("resumed", report.isResumed)
        json.member("was_done", report.wasDone)
        json.member("began_at_ms", report.beganMs)
        json.member("took_ms", Int64(seconds * 1_000))
        for kind in ReplayOutcome.allCases { json.member("\(kind)", counts[kind, default: 0]) }
        json.name("kinds")
        json.beginArray()
        for (row, count) in report.tally.rows {
            json.beginObject()
            json.member("topic", row.topic)
            json.member("app", row.app)
            json.member("outcome", row.outcome?.rawValue)
            json.member("reason", row.reason)
            json.member("count", count)
            json.endObject()
        }
        json.endArray()
        json.name("first")
        json.beginArray()
        for place in report.tally.first { json.value(place) }
        json.endArray()
        json.endObject()
        return json.text
    }
}

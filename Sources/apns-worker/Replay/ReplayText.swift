import JSON
import PushRecords
import Replay

extension ReplayOrder {
    /// The job's name, as `--name` takes it.
    private var job: String {
        group.split(separator: ".replay.\(source.rawValue)-", maxSplits: 1).last.map(String.init) ?? group
    }

    /// The progress of a run, for people.
    func progress(_ report: ReplayReport) -> String {
        let counts = report.counts
        return "\(Int(report.part * 100)) % read, \(counts[.matched]) matched, \(counts[.produced]) "
            + (isDryRun ? "would be produced again" : "produced again")
            + (counts.missed > 0 ? ", \(counts.missed) not" : "")
    }

    /// The outcome of a run, for people.
    func text(_ report: ReplayReport, _ seconds: Double) -> String {
        let counts = report.counts
        let things = source == .results ? "results" : "dead letters"
        var parts = ["\(counts[.produced]) requests \(isDryRun ? "would be" : "were") produced again"]
        func add(_ count: Int64, _ words: String) { if count > 0 { parts.append("\(count) \(words)") } }
        add(counts[.repeated], "were further \(things) of the same")
        add(counts[.expired], "have expired and were left out")
        add(counts[.gone], "are gone")
        add(counts[.unreadable], "cannot be read")
        add(counts[.refused], "cannot be asked for again")
        add(counts[.lost], "offsets of \(topic) were gone before they were read")
        let isPart = isDryRun && !report.isDone
        let sum =
            "of \(counts[.matched]) \(things) that matched\(isPart ? " so far" : ""): \(parts.joined(separator: ", "))"
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

    /// What matched, by what it was.
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
        var text = rows.map { row in
            let cells = row.enumerated().map {
                padded($0.element, to: $0.offset < row.count - 1 ? widths[$0.offset] : 0)
            }
            return "  " + cells.joined(separator: "  ") + "\n"
        }.joined()
        if report.tally.others > 0 { text += "  and \(report.tally.others) of other kinds\n" }
        return text + "the first: \(report.tally.first.map { printable($0, limit: 300) }.joined(separator: ", "))\n"
    }

    /// One object.
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
        for kind in ReplayCounts.Kind.allCases { json.member("\(kind)", counts[kind]) }
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

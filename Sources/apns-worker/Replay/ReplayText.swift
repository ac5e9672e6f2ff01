import Configuration
import JSON
import PushRecords
import Replay

extension ReplayOrder {
    /// Returns the result or the current progress of the job in one line.
    func summary(_ report: ReplayReport, _ seconds: Double) -> String {
        let counts = report.counts
        let things = source == .results ? "results" : "dead letters"
        var parts = ["\(counts[.produced, default: 0]) requests \(isDryRun ? "would be" : "were") produced again"]
        for (kind, words) in [
            (.repeated, "were additional \(things) of the same notifications"),
            (.expired, "have expired and were skipped"),
            (.gone, "no longer exist"), (.unreadable, "cannot be read"), (.refused, "cannot be requested again"),
        ] as [(ReplayOutcome, String)] {
            if let count = counts[kind] { parts.append("\(count) \(words)") }
        }
        let (so, end) = report.isDone ? ("", "") : (" so far", "; about \(report.left) more \(things) are left to read")
        let sum =
            "of \(counts[.matched, default: 0]) \(things) that matched\(so): \(parts.joined(separator: ", "))\(end)"
        if isDryRun { return "\(sum); nothing was written" }
        if report.wasDone {
            return
                "job \(job) was completed earlier, so nothing is produced; \(sum). Set another --name to replay again"
        }
        return
            "job \(job) \(report.isDone ? "is done" : "is not done") after \(tenths(seconds)) s\(report.isResumed ? ", resumed" : ""); \(sum)"
    }

    /// Returns one line for each combination of topic, app, outcome and reason, with the number of requests and the
    /// first of them.
    func table(_ report: ReplayReport) -> String {
        report.kinds.map { kind in
            let words = kind.words.map { oneLine($0 ?? "-", limit: 100) }.joined(separator: "  ")
            return "  \(padded("\(kind.count)", to: 9)) \(words)  (first: \(oneLine(kind.first, limit: 300)))\n"
        }.joined()
    }

    func json(_ report: ReplayReport, _ seconds: Double) -> String {
        let counts = report.counts
        return jsonObject { json in
            json.member("job", job)
            json.member("group", group)
            json.member("source", source.rawValue)
            json.member("topic", topic)
            json.member("dry_run", isDryRun)
            json.member("done", report.isDone)
            json.member("resumed", report.isResumed)
            json.member("was_done", report.wasDone)
            json.member("took_ms", Int64(seconds * 1_000))
            for kind in ReplayOutcome.allCases { json.member("\(kind)", counts[kind, default: 0]) }
            json.name("kinds")
            json.beginArray()
            for kind in report.kinds {
                json.beginObject()
                for (name, word) in zip(["topic", "app", "outcome", "reason"], kind.words) { json.member(name, word) }
                json.member("count", kind.count)
                json.member("first", kind.first)
                json.endObject()
            }
            json.endArray()
        }
    }
}

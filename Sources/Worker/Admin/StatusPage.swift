internal import Delivery
internal import PushRecords

/// The HTML page at `/`: the problems with advice, then rates, plots and tables. The page has no scripts and reloads
/// every five seconds. `/status` has the current values as JSON.
struct StatusPage {
    private(set) var text = ""
    private let snapshot: WorkerSnapshot
    private let isAlive: Bool
    /// Whether the folded parts are open, which a reload of the page would otherwise close.
    private let isUnfolded: Bool
    private let current: RecentHour.Sample
    private let minute: RecentHour.Interval?

    /// The page loads nothing, and its only style is the inline one.
    static let contentSecurityPolicy =
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    /// The number of partitions above which the rest of a table is folded.
    private static let rowLimit = 20

    init(_ snapshot: WorkerSnapshot, isAlive: Bool, isUnfolded: Bool) {
        self.snapshot = snapshot
        self.isAlive = isAlive
        self.isUnfolded = isUnfolded
        current = RecentHour.Sample(snapshot)
        minute = snapshot.hour.minute(to: current)
        let place = Self.escaped(snapshot.groupID + (snapshot.host.isEmpty ? "" : " on \(snapshot.host)"))
        let (headline, style) = headline
        text = """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(headline): apns-worker \(place)</title>
            <style>\(Self.style)</style></head><body>
            <h1>apns-worker <small>group \(place)</small> <strong class="\(style)">\(headline)</strong></h1>

            """
        writeProblems()
        writeNumbers()
        writePlots()
        writeApps()
        text += "<h2>Request topics</h2>\n"
        writePartitions(snapshot.partitions.filter { $0.role == .requests })
        writeRetryTopics()
        writeFooter()
    }

    private static let style = """
        :root { color-scheme: light dark; --line: #8884; --bad: #c4302b; --good: #1a7f37;
          --0: #1f6feb; --1: #bc4c00; --2: #1a7f37; --3: #8250df; --4: #9a6700 }
        @media (prefers-color-scheme: dark) { :root { --bad: #ff7b72; --good: #56d364;
          --0: #58a6ff; --1: #ffa657; --2: #56d364; --3: #d2a8ff; --4: #e3b341 } }
        body { font: 14px/1.5 system-ui, sans-serif; margin: 1.5em auto; max-width: 90em; padding: 0 1em }
        h1 { font-size: 1.4em; display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 .5em }
        h1 strong { margin-left: auto } h2 { font-size: 1.1em; margin: 1.5em 0 .3em } h2 + p { margin: 0 }
        small { font-weight: normal; opacity: .7 } .fine { color: var(--good) }
        .degraded, .starting, .bad { color: var(--bad) } h1, p { overflow-wrap: anywhere }
        .numbers { display: grid; grid-template-columns: repeat(auto-fill, minmax(9em, 1fr)); gap: .5em 1em }
        .numbers { padding: 0; list-style: none }
        .numbers b { display: block; font-size: 1.5em; font-weight: 600 } .quiet, .numbers { opacity: .85 }
        .problem { border-left: 4px solid var(--bad); padding: .3em .8em; margin: .5em 0 } .problem p { margin: 0 }
        .wide { overflow-x: auto } table { border-collapse: collapse; min-width: 100% }
        th, td { padding: .25em .7em .25em 0; text-align: right; border-bottom: 1px solid var(--line) }
        td, th { white-space: nowrap } th { font-weight: 600 } summary { cursor: pointer }
        th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas }
        .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(17em, 1fr)); gap: 1em 2em }
        figcaption { display: flex; justify-content: space-between }
        figure { margin: 0 } figure p { margin: 0; display: flex; flex-wrap: wrap; gap: 0 1em }
        svg { display: block; width: 100%; height: 5em; border: solid var(--line); border-width: 1px 0 }
        path { fill: none; stroke: currentColor; stroke-width: 1.5; stroke-linecap: round }
        path { vector-effect: non-scaling-stroke }
        .line0 { color: var(--0) } .line1 { color: var(--1) } .line2 { color: var(--2) } .line3 { color: var(--3) }
        .line4 { color: var(--4) }
        """

    private var headline: (text: String, style: String) {
        guard isAlive else { return ("stuck", "bad") }
        return switch snapshot.health {
        case "fine": ("healthy", "fine")
        case "degraded":
            (snapshot.problems.count == 1 ? "1 problem" : "\(snapshot.problems.count) problems", "degraded")
        default: ("\(snapshot.phase)", "starting")
        }
    }

    private mutating func writeProblems() {
        if !isAlive {
            text += "<p class=\"problem\">The core thread has been stuck for more than 10 s. This page is old.</p>\n"
        }
        for problem in snapshot.problems {
            let since = Self.duration(snapshot.takenMs - problem.sinceMs)
            let kind = problem.kind.rawValue
            text += """
                <div class="problem"><p><b>\(Self.escaped("\(problem.subject)"))</b>: \(Self.escaped(problem.text))
                <span class="quiet">(\(kind), for \(since))</span></p>
                <p>What to do: \(Self.escaped(problem.advice)).
                See section <b>\(kind)</b> of the article Runbooks.</p></div>

                """
        }
        if snapshot.problemsLeftOut > 0 { text += "<p>\(snapshot.problemsLeftOut) more problems are not shown.</p>\n" }
    }

    private mutating func writeNumbers() {
        let counters = snapshot.counters
        let secondsLeft = snapshot.hour.secondsToZero(current, changedNs: snapshot.partitionsChanged?.ns ?? 0)
        let left = secondsLeft.map { ", zero in about \(Self.duration(Self.whole($0 * 1_000)))" } ?? ""
        let rate = minute.map { minute in minute.rate { $0.outcomes.reduce(0, &+) } }
        let numbers: [(String, String)] = [
            (Self.number(current.lag), "requests not consumed\(left)"),
            (Self.number(snapshot.lag(of: .retries)), "in retry topics"),
            (Self.number(snapshot.gauges.openNotifications), "notifications open"),
            (Self.rate(rate), "notifications per second"),
            (Self.number(counters.notificationsSettled), "settled"),
            (Self.number(counters.deadLetters), "dead letters"),
            (Self.number(snapshot.unacknowledged), "records not acknowledged"),
            (Self.number(snapshot.crashes.total), "restarts after a crash"),
        ]
        let items = numbers.map { "<li><b>\($0)</b>\($1)</li>" }.joined(separator: "\n")
        text += "<ul class=\"numbers\">\n\(items)\n</ul>\n"
    }

    private mutating func writePlots() {
        let hour = snapshot.hour
        func rates(_ outcomes: [Outcome]) -> [(name: String, points: [RecentHour.Point])] {
            outcomes.map { outcome in
                (outcome.rawValue, hour.points { interval in interval.rate { $0.outcomes[outcome.index] } })
            }
        }
        func quantile(_ share: Double) -> [RecentHour.Point] {
            hour.points { $0.quantile(share) { $0.settleTimes } }
        }
        let plots = [
            HourPlot(title: "Accepted per second", lines: rates([.accepted]), format: Self.rate),
            HourPlot(
                title: "Other outcomes per second", lines: rates(Outcome.allCases.filter { $0 != .accepted }),
                format: Self.rate),
            HourPlot(
                title: "Time to outcome", lines: [("p50", quantile(0.5)), ("p99", quantile(0.99))],
                format: Self.latency),
            HourPlot(title: "Requests not consumed", lines: [("lag", hour.lags)]) { Self.number(Self.whole($0)) },
        ]
        let figures = plots.map { $0.html(nowNs: snapshot.takenNs) }.joined()
        text += "<h2>Last hour</h2>\n<div class=\"plots\">\n\(figures)</div>\n"
    }

    private mutating func writeApps() {
        text += """
            <h2>Apps</h2>
            <p class="quiet">The rate is of the last minute, and so are p50 and p99 of the time until APNs answers.</p>

            """
        var (states, counts, errors): ([[String]], [[String]], String) = ([], [], "")
        for (index, (app, counters)) in zip(snapshot.apps, snapshot.counters.apps).enumerated() where !app.isRemoved {
            let (name, connections) = (Self.escaped(app.name), app.standing.connections)
            // An app that was added within the last minute has no earlier counters.
            let minute = minute.flatMap { $0.start.apps.indices.contains(index) ? $0 : nil }
            let latencies = [0.5, 0.99].map { share in
                Self.latency(minute.flatMap { $0.quantile(share) { $0.apps[index].answerTimes } })
            }
            if let error = app.standing.lastError {
                let ago = Self.duration(snapshot.takenMs - error.atMs)
                errors += "<p>Last connection error of \(name), \(ago) ago: \(Self.escaped(error.text))</p>\n"
            }
            let state = ["\(app.environment.text)", app.state, Self.rate(minute?.rate { $0.apps[index].concluded })]
            let load = [connections.open, connections.streams, app.status?.handed ?? 0, app.status?.ready ?? 0]
                .map { Self.number($0) }
            states.append([name] + state + latencies + load + [credential(of: app)])
            counts.append([name] + Self.outcomes(counters))
        }
        if let others = snapshot.counters.apps.last, others.outcomes.contains(where: { $0 > 0 }) {
            counts.append(["of no app"] + Self.outcomes(others))
        }
        let columns = ["app", "environment", "state", "per second", "p50", "p99", "connections", "streams"]
        writeTable(columns + ["in flight", "waiting", "credential"], states)
        text += errors + "<h2>Outcomes since the start</h2>\n"
        writeTable(["app"] + Outcome.allCases.map(\.rawValue) + ["in doubt", "deferred", "reasons"], counts)
    }

    private static func outcomes(_ counters: DeliveryCounters.App) -> [String] {
        let causes = DeferralReason.allCases.map { ($0.word, counters.heldByCause[Int($0.rawValue)]) }
        let reasons = ReasonCode.allCases.map { code in
            (code.text?.description ?? "\(code)", counters.reasons[Int(code.rawValue)])
        }
        return Outcome.allCases.map { number(counters.outcomes[$0.index]) }
            + [number(counters.inDoubt), largest(causes), largest(reasons)]
    }

    private func credential(of app: WorkerSnapshot.App) -> String {
        if let endsMs = app.certificateEndsMs {
            let leftMs = endsMs - snapshot.takenMs
            return leftMs > 0 ? "expires in \(Self.duration(leftMs))" : "<b class=\"bad\">expired</b>"
        }
        return app.standing.tokenIssuedMs.map { "token, \(Self.duration(snapshot.takenMs - $0)) old" } ?? ""
    }

    /// Writes a table of partitions: unknown lags first, then by descending lag, then by the age of the oldest open
    /// record.
    private mutating func writePartitions(_ partitions: [WorkerSnapshot.Partition]) {
        let sorted = partitions.sorted { one, other in
            (one.lag ?? .max, other.status.oldestOpenMs ?? .max) > (other.lag ?? .max, one.status.oldestOpenMs ?? .max)
        }
        let rows = sorted.map { partition in
            let status = partition.status
            return [
                Self.escaped("\(status.topic) [\(status.partition)]"), Self.number(partition.lag),
                Self.number(status.openRecords), Self.number(status.openNotifications),
                status.oldestOpenMs.map { Self.duration(RecordTime.age(of: $0, nowMs: snapshot.takenMs)) } ?? "",
                Self.number(status.committed),
                status.isDraining ? "draining" : "",
            ]
        }
        let columns = ["partition", "lag", "open records", "open notifications", "oldest open", "committed offset", ""]
        writeTable(columns, Array(rows.prefix(Self.rowLimit)))
        if rows.count > Self.rowLimit {
            writeFolded("\(rows.count - Self.rowLimit) more partitions") {
                $0.writeTable(columns, Array(rows.dropFirst(Self.rowLimit)))
            }
        }
    }

    /// Writes a folded table for each retry topic. Records that are due later are normal there.
    private mutating func writeRetryTopics() {
        let link = isUnfolded ? "<a href=\"?\">fold</a>" : "<a href=\"?unfold\">unfold all</a>"
        text += "<h2>Retry topics <small>\(link)</small></h2>\n"
        let topics = Dictionary(grouping: snapshot.partitions.filter { $0.role == .retries }, by: \.status.topic)
        if topics.isEmpty { writeTable([], []) }
        for (topic, partitions) in topics.sorted(by: { $0.key < $1.key }) {
            let waiting = partitions.filter { $0.nextDueMs != nil }
            let later = WorkerSnapshot.lag(of: waiting).map { lag in
                lag - waiting.reduce(0) { $0 + Int64($1.status.openRecords) }
            }
            let now = WorkerSnapshot.lag(of: partitions).flatMap { lag in later.map { lag - $0 } }
            let next = waiting.compactMap(\.nextDueMs).min().map {
                ", next in \(Self.duration(max(0, $0 - snapshot.takenMs)))"
            }
            let summary =
                "due now \(Self.number(now)), due later \(Self.number(later))\(next ?? ""), "
                + "partitions \(partitions.count)"
            writeFolded("\(Self.escaped(topic)): \(summary)") { $0.writePartitions(partitions) }
        }
    }

    private mutating func writeFolded(_ summary: String, _ write: (inout Self) -> Void) {
        text += "<details\(isUnfolded ? " open" : "")><summary>\(summary)</summary>\n"
        write(&self)
        text += "</details>\n"
    }

    private mutating func writeFooter() {
        func ago(_ ms: Int64) -> String { "\(Self.duration(snapshot.takenMs - ms)) ago" }
        let changed = snapshot.partitionsChanged.map { " Its partitions last changed \(ago($0.wallMs))." } ?? ""
        text += """
            <p class="quiet">apns-worker \(BuildInfo.version) started \(ago(snapshot.startedMs)), and read its
            configuration \(ago(snapshot.reloadedMs ?? snapshot.startedMs)).\(changed) See also
            <a href="/status">/status</a>, <a href="/configuration">/configuration</a>, <a href="/metrics">/metrics</a>, <a href="/readyz">/readyz</a>,
            <a href="/livez">/livez</a>.</p>
            </body></html>

            """
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

    /// Returns the rate with up to two decimal places, or a dash for `nil`.
    private static func rate(_ perSecond: Double?) -> String {
        guard let perSecond else { return "–" }
        let rounded = perSecond < 10 ? (perSecond * 100).rounded() / 100 : perSecond.rounded()
        return rounded == rounded.rounded() ? number(whole(rounded)) : "\(rounded)"
    }

    private static func latency(_ ms: Double?) -> String {
        guard let ms else { return "–" }
        if ms < 1_000 { return "\(whole(ms.rounded(.up))) ms" }
        return ms < 60_000 ? "\(rate(ms / 1_000)) s" : duration(whole(ms))
    }

    private static func whole(_ value: Double) -> Int64 { Int64(exactly: value.rounded()) ?? .max }

    /// Returns the sum of the counts, and the three largest of them by name: `12 (BadDeviceToken 10, Unregistered 2)`.
    private static func largest(_ counts: [(String, Int)]) -> String {
        let used = counts.filter { $0.1 > 0 }.sorted { $0.1 > $1.1 }
        let named = used.prefix(3).map { "\($0) \(number($1))" } + (used.count > 3 ? ["…"] : [])
        let sum = number(used.reduce(0) { $0 &+ $1.1 })
        return used.isEmpty ? sum : "\(sum) (\(named.joined(separator: ", ")))"
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
        // A peer's text may contain control characters, which HTML does not allow, or change the direction of writing.
        let printable = text.unicodeScalars.map { scalar -> Unicode.Scalar in
            [.control, .format].contains(scalar.properties.generalCategory) ? " " : scalar
        }
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
        if status.isGuardTripped { return #"<b class="bad">slowed</b>"# }
        return standing.connections.open > 0 ? "connected" : "no connection"
    }
}

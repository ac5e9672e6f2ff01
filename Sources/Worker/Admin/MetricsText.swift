internal import Delivery
internal import Observability
internal import PushRecords

/// A snapshot as Prometheus reads it. Names follow its rules: base units, `_total` for counters.
struct MetricsText {
    private let snapshot: WorkerSnapshot
    /// By name, in the order in which they came.
    private let apps: [AppRow]
    private var out = PrometheusText()

    var text: String { out.text }

    init(_ snapshot: WorkerSnapshot, _ process: ProcessFigures) {
        self.snapshot = snapshot
        apps = AppRow.rows(of: snapshot)
        writeWorker()
        writeNotifications()
        writeSending()
        writeHealth()
        writeLatencies()
        writePartitions()
        writeKafka()
        writeProcess(process)
    }

    // MARK: Forms of families

    /// Begins a metric of the worker: by its name a counter (`_total`), or else a gauge.
    private mutating func family(_ name: String, _ help: StaticString, _ kind: PrometheusText.Kind? = nil) {
        out.family("apns_worker_\(name)", kind ?? (name.hasSuffix("_total") ? .counter : .gauge), help)
    }

    private mutating func one(_ name: String, _ help: StaticString, _ value: Int) {
        family(name, help)
        out.sample(value)
    }

    /// A sample for each app; none where `value` is `nil`.
    private mutating func perApp(
        _ name: String, _ help: StaticString, of rows: [AppRow]? = nil, _ value: (AppRow) -> Double?
    ) {
        family(name, help)
        for app in rows ?? apps { if let value = value(app) { out.sample(["app": app.name], value) } }
    }

    private mutating func perApp(
        _ name: String, _ help: StaticString, of rows: [AppRow]? = nil, _ value: KeyPath<AppRow, Int>
    ) {
        perApp(name, help, of: rows) { Double($0[keyPath: value]) }
    }

    /// A sample of 1 for each app that meets the condition, and of 0 for the others.
    private mutating func flagPerApp(_ name: String, _ help: StaticString, _ holds: (AppStatus) -> Bool) {
        perApp(name, help) { $0.status.map(holds) == true ? 1 : 0 }
    }

    /// Samples for each app, told apart by one more label.
    private mutating func perApp(
        _ name: String, _ help: StaticString, by label: StaticString, of rows: [AppRow]? = nil,
        _ values: (AppRow) -> [(String, Int)]
    ) {
        family(name, help)
        for app in rows ?? apps {
            for (word, value) in values(app) { out.sample(["app": app.name, label: word], value) }
        }
    }

    private mutating func perPartition(
        _ name: String, _ help: StaticString, _ value: (WorkerSnapshot.Partition) -> Double?
    ) {
        family("partition_\(name)", help)
        for partition in snapshot.partitions {
            guard let value = value(partition) else { continue }
            out.sample(["topic": partition.status.topic, "partition": "\(partition.status.partition)"], value)
        }
    }

    private mutating func perTopic(_ name: String, _ help: StaticString, _ counts: WorkerSnapshot.TopicCounts) {
        family(name, help)
        for (topic, records) in counts { out.sample(["topic": topic], records) }
    }

    // MARK: Families

    private mutating func writeWorker() {
        one("ready", "1 once the groups were joined, as /readyz says.", snapshot.isReady ? 1 : 0)
        one(
            "degraded", "1 while something keeps it from its work; /status says what.",
            snapshot.problems.isEmpty ? 0 : 1)
        one(
            "crashes_total",
            "Deaths after which the worker was started again; /status says at which record the last was.",
            snapshot.crashes.total)
        family("problems", "Problems, by what they are about (empty: more than are named).")
        let counts = Dictionary(grouping: snapshot.problems, by: \.subject).mapValues(\.count)
        for (subject, count) in counts.map({ ("\($0)", $1) }).sorted(by: <) {
            out.sample(["subject": subject], count)
        }
        if snapshot.problemsLeftOut > 0 { out.sample(["subject": ""], snapshot.problemsLeftOut) }
    }

    private mutating func writeNotifications() {
        let all = apps + [AppRow(name: "", counters: snapshot.counters.apps[snapshot.apps.count])]
        perApp(
            "notifications_total", "Notifications that ended, by app (empty: none could be told) and outcome.",
            by: "outcome", of: all
        ) { app in Outcome.allCases.map { ($0.rawValue, app.counters.outcomes[$0.index]) } }
        perApp(
            "reasons_total",
            "Answers other than 200 and the worker's refusals, by app and Apple's reason (none, or other: not known).",
            by: "reason", of: all
        ) { app in
            ReasonCode.allCases.compactMap { code in
                let count = app.counters.reasons[Int(code.rawValue)]
                let word = code.text?.description ?? (code == .none ? "none" : "other")
                return count > 0 ? (word, count) : nil
            }
        }
        perApp(
            "in_doubt_total",
            "Sends whose completion stayed unknown, those of dead workers included (app empty: none could be told).",
            of: all, \.counters.inDoubt)
    }

    private mutating func writeSending() {
        perApp("sends_total", "Requests handed to connections, resends included.", \.counters.handed)
        perApp("resends_total", "Sent again at once.", \.counters.resends)
        perApp(
            "sent_on_total", "Answered BadDeviceToken, and sent once more through the app of the other environment.",
            \.counters.sentToOtherEnvironment)
        perApp(
            "window_too_short_total", "Errors of the binary protocol that came after their window had closed.",
            \.window.tooShort)
        perApp(
            "window_lost_at_most_total",
            "Notifications, at most, that results call accepted and such an error calls refused or discarded.",
            \.window.lostAtMost)
        perApp(
            "feedback_tokens_total",
            "Dead tokens that the feedback service of the binary protocol told, and Kafka acknowledged."
        ) { $0.feedback.map { Double($0.tokens) } }
        perApp(
            "feedback_reads_total",
            "Reads of the feedback service: complete, incomplete (there may have been more), or failed (nothing came).",
            by: "outcome"
        ) { app in
            zip(FeedbackStanding.Outcome.allCases, app.feedback?.reads ?? []).map { ($0.rawValue, $1) }
        }
        perApp(
            "held_total",
            "Moved to a retry tier without using up an attempt, by cause; scheduled: to wait for push-not-before.",
            by: "cause"
        ) { app in DeferralReason.allCases.map { ($0.word, app.counters.heldByCause[Int($0.rawValue)]) } }
        let tiers = snapshot.tiers
        perApp("retries_total", "Moved to a retry tier as an attempt, by tier.", by: "tier") {
            Array(zip(tiers, $0.counters.retries))
        }
        perApp(
            "in_flight", "Requests without an answer: handed to connections, or waiting there for a free stream.",
            \.inFlight)
        perApp(
            "streams_allowed",
            "Requests that the open connections take at once, as their servers say (of a gateway: may be undecided).",
            \.connections.streams)
        perApp(
            "concurrency_limit",
            "Requests in flight at most: streams_allowed and an eighth, fewer while overloaded or slowed down."
        ) { Double($0.status?.concurrency ?? 0) }
        perApp("waiting", "Notifications that wait for a free stream.", \.waiting)
        perApp("connections", "Connections to APNs, by state.", by: "state") {
            [
                ("dialing", $0.connections.dialing), ("open", $0.connections.open),
                ("draining", $0.connections.draining),
            ]
        }
    }

    private mutating func writeHealth() {
        flagPerApp("credential_refused", "1 while Apple refuses the credential: a circuit is open.") {
            $0.credentialOpenNs != nil || $0.openTopics > 0
        }
        flagPerApp(
            "unreachable", "1 while the app is held because no connection can be made, or none is of use."
        ) { $0.isCutOff }
        flagPerApp(
            "environment_guard_tripped",
            "1 once over half of the last 1,000 tokens, or all of the first 20, were bad, until under half of 100 are."
        ) { if case .tripped = $0.guardState { true } else { false } }
        flagPerApp("paused", "1 while the configuration pauses it.") { $0.isPaused }
        one(
            "circuits_opened_total",
            "Times that sending stopped for a refused credential or topic, or for a host that is out of reach.",
            snapshot.counters.circuitsOpened)
        one(
            "environment_guard_trips_total",
            "Times that more than half of the last 1,000 tokens of an app were bad, or all of its first 20.",
            snapshot.counters.guardsTripped)
        let takenMs = snapshot.takenMs
        perApp(
            "provider_token_age_seconds",
            "Age of the provider token since its iat, which all replicas share: a new token does not begin at 0."
        ) { $0.current?.standing.tokenIssuedMs.map { (Double(takenMs) - Double($0)) / 1_000 } }
        perApp("certificate_expiry_timestamp_seconds", "When the client certificate ends, Unix time.") {
            $0.current?.certificateEndsMs.map { Double($0) / 1_000 }
        }
    }

    private mutating func writeLatencies() {
        family(
            "record_to_settled_seconds",
            "From a request's timestamp (or later push-not-before) to Kafka's acknowledgement of what became of it.",
            .histogram)
        out.histogram([:], snapshot.counters.settleTimes)
        family("request_to_response_seconds", "From a request being handed over to its answer.", .histogram)
        for app in apps { out.histogram(["app": app.name], app.counters.answerTimes) }
    }

    private mutating func writePartitions() {
        family("partitions", "Partitions assigned, by role.")
        for role in WorkerSnapshot.Role.allCases {
            out.sample(["role": role.rawValue], snapshot.partitions.count { $0.role == role })
        }
        family(
            "lag_records",
            "Records behind the log's end over assigned partitions, by role; none while it is not known of all.")
        for role in WorkerSnapshot.Role.allCases {
            if let lag = snapshot.lag(of: role) { out.sample(["role": role.rawValue], Int(lag)) }
        }
        perPartition("lag_records", "Records from the watermark to the log's end.") { $0.lag.map(Double.init) }
        perPartition("open_records", "Records read and not settled.") { Double($0.status.openRecords) }
        perPartition("open_notifications", "Notifications read and not settled.") {
            Double($0.status.openNotifications)
        }
        perPartition("watermark_distance", "Offsets from the watermark to the highest received.") {
            Double($0.status.span)
        }
        let takenMs = snapshot.takenMs
        perPartition("oldest_open_age_seconds", "Age of the oldest record that is not settled; 0: none.") {
            $0.status.oldestOpenMs.map { Double(RecordTime.age(of: $0, nowMs: takenMs)) / 1_000 } ?? 0
        }
        perPartition("committed_offset", "The offset last acknowledged by the group.") {
            $0.status.committed.map(Double.init)
        }
    }

    private mutating func writeKafka() {
        let counters = snapshot.counters
        let gauges = snapshot.gauges
        one("records_received_total", "Records read from request and retry topics.", counters.recordsReceived)
        one("notifications_received_total", "Notifications in them.", counters.notificationsAdmitted)
        one(
            "notifications_settled_total",
            "Notifications whose result, retry record or dead letter Kafka acknowledged.",
            counters.notificationsSettled)
        one("dead_letters_total", "Records from which no notification could be read.", counters.deadLetters)
        one(
            "duplicates_skipped_total",
            "Records and notifications that the commit's map named settled: read again, not sent again.",
            counters.duplicatesSkipped)
        one("late_total", "Answers and acknowledgements for partitions that were given up.", counters.late)
        one("commits_total", "Offset commits sent.", counters.commits)
        one(
            "commits_acknowledged_total", "Partitions whose commit Kafka acknowledged.", counters.commitsAcknowledged)
        one("commits_refused_total", "Partitions whose commit was refused.", counters.commitsRefused)
        one(
            "offsets_committed_total", "Offsets that acknowledged commits moved past.", Int(counters.offsetsCommitted))
        one("maps_cut_total", "Commits whose map was too long and was cut.", counters.mapsCut)
        one(
            "open_notifications", "Notifications open over all partitions (delivery.max_open).",
            gauges.openNotifications)
        one("open_bytes", "Bytes of records held (delivery.max_open_bytes).", gauges.openBytes)
        one("unacknowledged_records", "Records produced and not acknowledged by Kafka.", snapshot.unacknowledged)
        one("refused_records", "Records refused by Kafka that wait to be written again.", snapshot.refused)
        perTopic(
            "too_large_records_total",
            "Records that were too large for a topic and were written smaller, or as a dead letter, by topic.",
            snapshot.tooLarge)
        perTopic(
            "rejected_records_total", "Records that a topic refused for their own sake while it took others, by topic.",
            snapshot.rejected)
    }

    private mutating func writeProcess(_ process: ProcessFigures) {
        one(
            "log_lines_lost_total", "Log lines that were dropped because standard error did not take them.",
            process.logLinesLost)
        out.family("process_cpu_seconds_total", .counter, "User and system time of all threads.")
        out.sample(process.cpuSeconds)
        out.family("process_resident_memory_bytes", .gauge, "Resident memory.")
        out.sample(process.residentBytes)
        out.family("process_start_time_seconds", .gauge, "When the worker was started, Unix time.")
        out.sample(Double(snapshot.startedMs) / 1_000)
    }
}

/// An app in the metrics. One that was removed and came back is one, whose counters go on.
private struct AppRow {
    let name: String
    var counters: DeliveryCounters.App
    var connections = ConnectionCounts()
    var inFlight = 0
    var waiting = 0
    var window = AppTransports.WindowFaults()
    var feedback: FeedbackStanding?
    /// The app of that name that the configuration has now.
    var current: WorkerSnapshot.App?

    var status: AppStatus? { current?.status }

    static func rows(of snapshot: WorkerSnapshot) -> [AppRow] {
        var rows: [AppRow] = []
        var places: [String: Int] = [:]
        for (app, counters) in zip(snapshot.apps, snapshot.counters.apps) {
            if let place = places[app.name] {
                rows[place].counters = rows[place].counters.sum(with: counters)
                rows[place].add(app)
            } else {
                places[app.name] = rows.count
                rows.append(AppRow(name: app.name, counters: counters))
                rows[rows.count - 1].add(app)
            }
        }
        return rows
    }

    private mutating func add(_ app: WorkerSnapshot.App) {
        connections = connections.sum(with: app.standing.connections)
        inFlight += app.status?.handed ?? 0
        waiting += app.status?.ready ?? 0
        window = window.sum(with: app.standing.window)
        feedback = app.feedback.map { $0.sum(with: feedback) } ?? feedback
        if !app.isRemoved { current = app }
    }
}

extension PrometheusText {
    fileprivate mutating func histogram(_ labels: Labels, _ counts: LatencyCounts) {
        let last = LatencyCounts.bucketCount - 1
        histogram(
            labels, buckets: (0..<last).map { (bound: Double(1 << $0) / 1_000, count: counts[$0]) },
            above: counts[last], sum: Double(counts.sumMs) / 1_000)
    }
}

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

    private mutating func one(
        _ name: StaticString, _ kind: PrometheusText.Kind, _ help: StaticString, _ value: Double
    ) {
        out.family(name, kind, help)
        out.sample(value)
    }

    private mutating func total(_ name: StaticString, _ help: StaticString, _ value: Int) {
        one(name, .counter, help, Double(value))
    }

    private mutating func gauge(_ name: StaticString, _ help: StaticString, _ value: Int) {
        one(name, .gauge, help, Double(value))
    }

    /// A sample for each app; none where `value` is `nil`.
    private mutating func perApp(
        _ name: StaticString, _ kind: PrometheusText.Kind, _ help: StaticString, _ value: (AppRow) -> Double?
    ) {
        out.family(name, kind, help)
        for app in apps { if let value = value(app) { out.sample(["app": app.name], value) } }
    }

    /// Samples for each app, told apart by one more label.
    private mutating func perApp(
        _ name: StaticString, _ kind: PrometheusText.Kind, _ help: StaticString, by label: StaticString,
        of rows: [AppRow]? = nil, _ values: (AppRow) -> [(String, Int)]
    ) {
        out.family(name, kind, help)
        for app in rows ?? apps {
            for (word, value) in values(app) { out.sample(["app": app.name, label: word], value) }
        }
    }

    private mutating func perPartition(
        _ name: StaticString, _ help: StaticString, _ value: (WorkerSnapshot.Partition) -> Double?
    ) {
        out.family(name, .gauge, help)
        for partition in snapshot.partitions {
            guard let value = value(partition) else { continue }
            out.sample(["topic": partition.status.topic, "partition": "\(partition.status.partition)"], value)
        }
    }

    private mutating func perTopic(_ name: StaticString, _ help: StaticString, _ counts: WorkerSnapshot.TopicCounts) {
        out.family(name, .counter, help)
        for (topic, records) in counts { out.sample(["topic": topic], records) }
    }

    // MARK: Families

    private mutating func writeWorker() {
        gauge("apns_worker_ready", "1 once the groups were joined, as /readyz says.", snapshot.isReady ? 1 : 0)
        gauge(
            "apns_worker_degraded", "1 while something keeps it from its work; /status says what.",
            snapshot.problems.isEmpty ? 0 : 1)
        total(
            "apns_worker_crashes_total",
            "Deaths after which the worker was started again; /status says at which record the last was.",
            snapshot.crashes.total)
        out.family(
            "apns_worker_problems", .gauge, "Problems, by what they are about (empty: more than are named).")
        let counts = Dictionary(grouping: snapshot.problems, by: \.subject).mapValues(\.count)
        for (subject, count) in counts.map({ ("\($0)", $1) }).sorted(by: <) {
            out.sample(["subject": subject], count)
        }
        if snapshot.problemsLeftOut > 0 { out.sample(["subject": ""], snapshot.problemsLeftOut) }
    }

    private mutating func writeNotifications() {
        let all = apps + [AppRow(name: "", counters: snapshot.counters.apps[snapshot.apps.count])]
        perApp(
            "apns_worker_notifications_total", .counter,
            "Notifications that ended, by app (empty: none could be told) and outcome.", by: "outcome", of: all
        ) { app in Outcome.allCases.map { ($0.rawValue, app.counters.outcomes[$0.index]) } }
        perApp(
            "apns_worker_reasons_total", .counter,
            "Answers other than 200 and the worker's refusals, by app and Apple's reason (none, or other: not known).",
            by: "reason", of: all
        ) { app in
            ReasonCode.allCases.compactMap { code in
                let count = app.counters.reasons[Int(code.rawValue)]
                let word = code.text?.description ?? (code == .none ? "none" : "other")
                return count > 0 ? (word, count) : nil
            }
        }
        out.family(
            "apns_worker_in_doubt_total", .counter,
            "Sends whose completion stayed unknown, those of dead workers included (app empty: none could be told).")
        for app in all { out.sample(["app": app.name], app.counters.inDoubt) }
    }

    private mutating func writeSending() {
        perApp("apns_worker_sends_total", .counter, "Requests handed to connections, resends included.") {
            Double($0.counters.handed)
        }
        perApp("apns_worker_resends_total", .counter, "Sent again at once.") { Double($0.counters.resends) }
        perApp(
            "apns_worker_sent_on_total", .counter,
            "Answered BadDeviceToken, and sent once more through the app of the other environment."
        ) { Double($0.counters.sentOn) }
        perApp(
            "apns_worker_window_too_short_total", .counter,
            "Errors of the binary protocol that came after their window had closed."
        ) { Double($0.window.tooShort) }
        perApp(
            "apns_worker_window_lost_at_most_total", .counter,
            "Notifications, at most, that results call accepted and such an error calls refused or discarded."
        ) { Double($0.window.lostAtMost) }
        perApp(
            "apns_worker_feedback_tokens_total", .counter,
            "Dead tokens that the feedback service of the binary protocol told, and Kafka acknowledged."
        ) { $0.feedback.map { Double($0.tokens) } }
        perApp(
            "apns_worker_feedback_reads_total", .counter,
            "Reads of the feedback service: complete, incomplete (there may have been more), or failed (nothing came).",
            by: "outcome"
        ) { app in
            zip(FeedbackStanding.Outcome.allCases, app.feedback?.reads ?? []).map { ($0.rawValue, $1) }
        }
        perApp(
            "apns_worker_held_total", .counter,
            "Moved to a retry tier without using up an attempt, by cause; scheduled: to wait for push-not-before.",
            by: "cause"
        ) { app in DeferralReason.allCases.map { ($0.word, app.counters.heldByCause[Int($0.rawValue)]) } }
        let tiers = snapshot.tiers
        perApp("apns_worker_retries_total", .counter, "Moved to a retry tier as an attempt, by tier.", by: "tier") {
            Array(zip(tiers, $0.counters.retries))
        }
        perApp(
            "apns_worker_in_flight", .gauge,
            "Requests without an answer: handed to connections, or waiting there for a free stream."
        ) { Double($0.inFlight) }
        perApp(
            "apns_worker_streams_allowed", .gauge,
            "Requests that the open connections take at once, as their servers say (of a gateway: may be undecided)."
        ) { Double($0.connections.streams) }
        perApp(
            "apns_worker_concurrency_limit", .gauge,
            "Requests in flight at most: streams_allowed and an eighth, fewer while overloaded or slowed down."
        ) { Double($0.status?.concurrency ?? 0) }
        perApp("apns_worker_waiting", .gauge, "Notifications that wait for a free stream.") { Double($0.waiting) }
        perApp("apns_worker_connections", .gauge, "Connections to APNs, by state.", by: "state") { app in
            let counts = app.connections
            return [("dialing", counts.dialing), ("open", counts.open), ("draining", counts.draining)]
        }
    }

    private mutating func writeHealth() {
        perApp("apns_worker_credential_refused", .gauge, "1 while Apple refuses the credential: a circuit is open.") {
            $0.status?.credentialOpenNs != nil || $0.status?.openTopics ?? 0 > 0 ? 1 : 0
        }
        perApp(
            "apns_worker_unreachable", .gauge,
            "1 while the app is held because no connection can be made, or none is of use."
        ) { $0.status?.isCutOff == true ? 1 : 0 }
        perApp(
            "apns_worker_environment_guard_tripped", .gauge,
            "1 once over half of the last 1,000 tokens, or all of the first 20, were bad, until under half of 100 are."
        ) { if case .tripped? = $0.status?.guardState { 1 } else { 0 } }
        perApp("apns_worker_paused", .gauge, "1 while the configuration pauses it.") {
            $0.status?.isPaused == true ? 1 : 0
        }
        total(
            "apns_worker_circuits_opened_total",
            "Times that sending stopped for a refused credential or topic, or for a host that is out of reach.",
            snapshot.counters.circuitsOpened)
        total(
            "apns_worker_environment_guard_trips_total",
            "Times that more than half of the last 1,000 tokens of an app were bad, or all of its first 20.",
            snapshot.counters.guardsTripped)
        let takenMs = Double(snapshot.takenMs)
        perApp(
            "apns_worker_provider_token_age_seconds", .gauge,
            "Age of the provider token since its iat, which all replicas share: a new token does not begin at 0."
        ) { $0.current?.standing.tokenIssuedMs.map { (takenMs - Double($0)) / 1_000 } }
        perApp(
            "apns_worker_certificate_expiry_timestamp_seconds", .gauge, "When the client certificate ends, Unix time."
        ) { $0.current?.certificateEndsMs.map { Double($0) / 1_000 } }
    }

    private mutating func writeLatencies() {
        out.family(
            "apns_worker_record_to_settled_seconds", .histogram,
            "From a request's timestamp (or later push-not-before) to Kafka's acknowledgement of what became of it.")
        out.histogram([:], snapshot.counters.settleTimes)
        out.family(
            "apns_worker_request_to_response_seconds", .histogram, "From a request being handed over to its answer.")
        for app in apps { out.histogram(["app": app.name], app.counters.answerTimes) }
    }

    private mutating func writePartitions() {
        out.family("apns_worker_partitions", .gauge, "Partitions assigned, by role.")
        for role in WorkerSnapshot.Role.allCases {
            out.sample(["role": role.rawValue], snapshot.partitions.count { $0.role == role })
        }
        out.family(
            "apns_worker_lag_records", .gauge,
            "Records behind the log's end over assigned partitions, by role; none while it is not known of all.")
        for role in WorkerSnapshot.Role.allCases {
            if let lag = snapshot.lag(of: role) { out.sample(["role": role.rawValue], Int(lag)) }
        }
        perPartition("apns_worker_partition_lag_records", "Records from the watermark to the log's end.") {
            $0.lag.map(Double.init)
        }
        perPartition("apns_worker_partition_open_records", "Records read and not settled.") {
            Double($0.status.openRecords)
        }
        perPartition("apns_worker_partition_open_notifications", "Notifications read and not settled.") {
            Double($0.status.openNotifications)
        }
        perPartition("apns_worker_partition_watermark_distance", "Offsets from the watermark to the highest received.")
        { Double($0.status.span) }
        let takenMs = snapshot.takenMs
        perPartition(
            "apns_worker_partition_oldest_open_age_seconds", "Age of the oldest record that is not settled; 0: none."
        ) { $0.status.oldestOpenMs.map { Double(RecordTime.age(of: $0, nowMs: takenMs)) / 1_000 } ?? 0 }
        perPartition("apns_worker_partition_committed_offset", "The offset last acknowledged by the group.") {
            $0.status.committed.map(Double.init)
        }
    }

    private mutating func writeKafka() {
        let counters = snapshot.counters
        total(
            "apns_worker_records_received_total", "Records read from request and retry topics.",
            counters.recordsReceived)
        total("apns_worker_notifications_received_total", "Notifications in them.", counters.notificationsAdmitted)
        total(
            "apns_worker_notifications_settled_total",
            "Notifications whose result, retry record or dead letter Kafka acknowledged.",
            counters.notificationsSettled)
        total(
            "apns_worker_dead_letters_total", "Records from which no notification could be read.", counters.deadLetters)
        total(
            "apns_worker_duplicates_skipped_total",
            "Records and notifications that the commit's map named settled: read again, not sent again.",
            counters.duplicatesSkipped)
        total(
            "apns_worker_late_total", "Answers and acknowledgements for partitions that were given up.", counters.late)
        total("apns_worker_commits_total", "Offset commits sent.", counters.commits)
        total(
            "apns_worker_commits_acknowledged_total", "Partitions whose commit Kafka acknowledged.",
            counters.commitsAcknowledged)
        total("apns_worker_commits_refused_total", "Partitions whose commit was refused.", counters.commitsRefused)
        total(
            "apns_worker_offsets_committed_total", "Offsets that acknowledged commits moved past.",
            Int(counters.offsetsCommitted))
        total("apns_worker_maps_cut_total", "Commits whose map was too long and was cut.", counters.mapsCut)
        gauge(
            "apns_worker_open_notifications", "Notifications open over all partitions (delivery.max_open).",
            snapshot.gauges.openNotifications)
        gauge("apns_worker_open_bytes", "Bytes of records held (delivery.max_open_bytes).", snapshot.gauges.openBytes)
        gauge(
            "apns_worker_unacknowledged_records", "Records produced and not acknowledged by Kafka.",
            snapshot.unacknowledged)
        gauge(
            "apns_worker_refused_records", "Records refused by Kafka that wait to be written again.", snapshot.refused)
        perTopic(
            "apns_worker_too_large_records_total",
            "Records that were too large for a topic and were written smaller, or as a dead letter, by topic.",
            snapshot.tooLarge)
        perTopic(
            "apns_worker_rejected_records_total",
            "Records that a topic refused for their own sake while it took others, by topic.", snapshot.rejected)
    }

    private mutating func writeProcess(_ process: ProcessFigures) {
        total(
            "apns_worker_log_lines_lost_total", "Log lines that were dropped because standard error did not take them.",
            process.logLinesLost)
        one("process_cpu_seconds_total", .counter, "User and system time of all threads.", process.cpuSeconds)
        gauge("process_resident_memory_bytes", "Resident memory.", process.residentBytes)
        one(
            "process_start_time_seconds", .gauge, "When the worker was started, Unix time.",
            Double(snapshot.startedMs) / 1_000)
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

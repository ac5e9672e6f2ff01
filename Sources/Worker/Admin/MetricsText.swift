internal import Delivery
internal import Observability
internal import PushRecords

/// A snapshot as Prometheus reads it. Names follow its rules: base units, `_total` for what only grows.
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
        writeLatencies()
        writePartitions()
        writeKafka()
        writeProcess(process)
    }

    // MARK: The worker

    private mutating func writeWorker() {
        out.family("apns_worker_ready", .gauge, "1 once the groups were joined, as /readyz says.")
        out.sample(snapshot.isReady ? 1 : 0)
        out.family("apns_worker_degraded", .gauge, "1 while something keeps it from its work; /status says what.")
        out.sample(snapshot.problems.isEmpty ? 0 : 1)
        out.family(
            "apns_worker_crashes_total", .counter,
            "Deaths after which the process replaced itself; /status says at which record the last was.")
        out.sample(snapshot.crashes.total)
        out.family(
            "apns_worker_problems", .gauge, "Problems, by what they are about (empty: more than are named).")
        var counts: [(subject: String, count: Int)] = []
        for problem in snapshot.problems {
            if let place = counts.firstIndex(where: { $0.subject == problem.subject }) {
                counts[place].count += 1
            } else {
                counts.append((problem.subject, 1))
            }
        }
        if snapshot.problemsLeftOut > 0 { counts.append(("", snapshot.problemsLeftOut)) }
        for (subject, count) in counts { out.sample(["subject": subject], count) }
    }

    // MARK: Notifications

    /// Of every app that ever was, and of the notifications for which none could be told.
    private var countersByName: [(name: String, counters: DeliveryCounters.App)] {
        apps.map { ($0.name, $0.counters) } + [("", snapshot.counters.apps[snapshot.apps.count])]
    }

    private mutating func writeNotifications() {
        out.family(
            "apns_worker_notifications_total", .counter,
            "Notifications that ended, by app (empty: none could be told) and outcome.")
        for (name, counters) in countersByName {
            for outcome in Outcome.allCases {
                out.sample(["app": name, "outcome": outcome.rawValue], counters.outcomes[outcome.index])
            }
        }
        out.family(
            "apns_worker_reasons_total", .counter,
            "Answers other than 200, and refusals of our own, by app and reason in Apple's words (none: without one; other: in a word that this version does not know, or a gateway's own, which results have)."
        )
        for (name, counters) in countersByName {
            for code in ReasonCode.allCases where counters.reasons[Int(code.rawValue)] > 0 {
                let reason = code.text?.description ?? (code == .none ? "none" : "other")
                out.sample(["app": name, "reason": reason], counters.reasons[Int(code.rawValue)])
            }
        }
    }

    // MARK: Sending

    private mutating func perApp(
        _ name: StaticString, _ kind: PrometheusText.Kind, _ help: StaticString, _ value: (AppRow) -> Int
    ) {
        out.family(name, kind, help)
        for app in apps { out.sample(["app": app.name], value(app)) }
    }

    private mutating func writeSending() {
        perApp("apns_worker_sends_total", .counter, "Requests handed to connections, resends included.") {
            $0.counters.handed
        }
        perApp("apns_worker_resends_total", .counter, "Sent again at once.") { $0.counters.resends }
        perApp(
            "apns_worker_sent_on_total", .counter,
            "Answered BadDeviceToken, and sent once more through the app of the other environment."
        ) { $0.counters.sentOn }
        out.family(
            "apns_worker_in_doubt_total", .counter,
            "Sends whose completion stayed unknown, those of owners that died included (app empty: none could be told)."
        )
        for (name, counters) in countersByName { out.sample(["app": name], counters.inDoubt) }
        perApp(
            "apns_worker_window_too_short_total", .counter,
            "Errors of the binary protocol that came after their window had closed."
        ) { $0.window.tooShort }
        perApp(
            "apns_worker_window_lost_at_most_total", .counter,
            "Notifications, at most, whose results say accepted, and that such an error says were refused or discarded."
        ) { $0.window.lostAtMost }
        writeFeedback()
        out.family(
            "apns_worker_held_total", .counter,
            "Moved to a retry tier without an attempt being used up, by cause; scheduled: to wait for push-not-before.")
        for app in apps {
            for cause in HeldCause.allCases {
                out.sample(
                    ["app": app.name, "cause": cause.word], app.counters.heldByCause[Int(cause.rawValue)])
            }
        }
        out.family("apns_worker_retries_total", .counter, "Moved to a retry tier as an attempt, by tier.")
        for app in apps {
            for (tier, count) in zip(snapshot.tiers, app.counters.retries) {
                out.sample(["app": app.name, "tier": tier], count)
            }
        }
        perApp(
            "apns_worker_in_flight", .gauge,
            "Requests without an answer: handed to connections, or waiting there for a free stream."
        ) { $0.inFlight }
        perApp(
            "apns_worker_streams_allowed", .gauge,
            "Requests that the open connections take at once, as their servers say (of a gateway: may be undecided)."
        ) { $0.connections.streams }
        perApp(
            "apns_worker_concurrency_limit", .gauge,
            "Requests that the worker gives them at once: the streams and up to an eighth more, which wait beside the connections for the next free one, or fewer while Apple is overloaded or the app is slowed down."
        ) { $0.status?.concurrency ?? 0 }
        perApp("apns_worker_waiting", .gauge, "Notifications that wait for a free stream.") { $0.waiting }
        out.family("apns_worker_connections", .gauge, "Connections to APNs, by state.")
        for app in apps {
            out.sample(["app": app.name, "state": "dialing"], app.connections.dialing)
            out.sample(["app": app.name, "state": "open"], app.connections.open)
            out.sample(["app": app.name, "state": "draining"], app.connections.draining)
        }
        writeHealth()
    }

    private mutating func writeFeedback() {
        out.family(
            "apns_worker_feedback_tokens_total", .counter,
            "Dead tokens that the feedback service of the binary protocol told, and Kafka acknowledged.")
        for app in apps { if let feedback = app.feedback { out.sample(["app": app.name], feedback.tokens) } }
        out.family(
            "apns_worker_feedback_reads_total", .counter,
            "Reads of the feedback service: complete, incomplete (there may have been more), or failed (nothing came).")
        for app in apps {
            guard let feedback = app.feedback else { continue }
            for (outcome, count) in zip(FeedbackStanding.Outcome.allCases, feedback.reads) {
                out.sample(["app": app.name, "outcome": outcome.rawValue], count)
            }
        }
    }

    private mutating func writeHealth() {
        perApp("apns_worker_credential_refused", .gauge, "1 while Apple refuses the credential: a circuit is open.") {
            $0.status?.credentialOpenNs != nil || $0.status?.openTopics ?? 0 > 0 ? 1 : 0
        }
        perApp(
            "apns_worker_unreachable", .gauge,
            "1 while the app is held because no connection can be made, or none is of use."
        ) {
            $0.status?.isCutOff == true ? 1 : 0
        }
        perApp(
            "apns_worker_environment_guard_tripped", .gauge,
            "1 once more than half of its last 1,000 tokens were bad, or all of the first 20, until fewer than half of 100 are."
        ) { app in
            if case .tripped? = app.status?.guardState { 1 } else { 0 }
        }
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
        out.family(
            "apns_worker_provider_token_age_seconds", .gauge,
            "Age of the provider token in use since its iat, a time that all replicas share: a new one does not begin at 0."
        )
        for app in snapshot.apps where !app.isRemoved {
            guard let issuedMs = app.tokenIssuedMs else { continue }
            out.sample(["app": app.name], (Double(snapshot.takenMs) - Double(issuedMs)) / 1_000)
        }
        out.family(
            "apns_worker_certificate_expiry_timestamp_seconds", .gauge, "When the client certificate ends, Unix time.")
        for app in snapshot.apps where !app.isRemoved {
            guard let endsMs = app.certificateEndsMs else { continue }
            out.sample(["app": app.name], Double(endsMs) / 1_000)
        }
    }

    // MARK: Latencies

    private mutating func writeLatencies() {
        out.family(
            "apns_worker_record_to_settled_seconds", .histogram,
            "From a request record's timestamp, or its push-not-before where that is later, to its result, retry record or dead letter being acknowledged; not what waits for that time."
        )
        out.histogram([:], snapshot.counters.settleTimes)
        out.family(
            "apns_worker_request_to_response_seconds", .histogram, "From a request being handed over to its answer.")
        for app in apps { out.histogram(["app": app.name], app.counters.answerTimes) }
    }

    // MARK: Partitions

    private mutating func perPartition(
        _ name: StaticString, _ help: StaticString, _ value: (WorkerSnapshot.Partition) -> Double?
    ) {
        out.family(name, .gauge, help)
        for partition in snapshot.partitions {
            guard let value = value(partition) else { continue }
            out.sample(
                ["topic": partition.status.topic, "partition": "\(partition.status.partition)"], value)
        }
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
            guard let lag = snapshot.lag(of: role) else { continue }
            out.sample(["role": role.rawValue], Int(lag))
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
        {
            Double($0.status.span)
        }
        let takenMs = snapshot.takenMs
        perPartition(
            "apns_worker_partition_oldest_open_age_seconds", "Age of the oldest record that is not settled; 0: none."
        ) { partition in
            partition.status.oldestOpenMs.map { Double(RecordTime.age(of: $0, nowMs: takenMs)) / 1_000 } ?? 0
        }
        perPartition("apns_worker_partition_committed_offset", "The offset last acknowledged by the group.") {
            $0.status.committed.map(Double.init)
        }
    }

    // MARK: Kafka

    private mutating func total(_ name: StaticString, _ help: StaticString, _ value: Int) {
        out.family(name, .counter, help)
        out.sample(value)
    }

    private mutating func writeKafka() {
        let counters = snapshot.counters
        total(
            "apns_worker_records_received_total", "Records read from request and retry topics.",
            counters.recordsReceived)
        total("apns_worker_notifications_received_total", "Notifications in them.", counters.notificationsAdmitted)
        total(
            "apns_worker_notifications_settled_total",
            "Notifications whose result, retry record or dead letter Kafka acknowledged.", counters.notificationsSettled
        )
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
        out.family(
            "apns_worker_open_notifications", .gauge, "Notifications open over all partitions (delivery.max_open).")
        out.sample(snapshot.gauges.openNotifications)
        out.family("apns_worker_open_bytes", .gauge, "Bytes of records held (delivery.max_open_bytes).")
        out.sample(snapshot.gauges.openBytes)
        out.family("apns_worker_unacknowledged_records", .gauge, "Records produced and not acknowledged by Kafka.")
        out.sample(snapshot.unacknowledged)
        out.family("apns_worker_refused_records", .gauge, "Records refused by Kafka that wait to be written again.")
        out.sample(snapshot.refused)
        out.family(
            "apns_worker_too_large_records_total", .counter,
            "Records that were too large for a topic and were written smaller, or as a dead letter, by topic.")
        for (topic, records) in snapshot.tooLarge { out.sample(["topic": topic], records) }
        out.family(
            "apns_worker_rejected_records_total", .counter,
            "Records that a topic refused for their own sake while it took others, by topic.")
        for (topic, records) in snapshot.rejected { out.sample(["topic": topic], records) }
    }

    // MARK: Process

    private mutating func writeProcess(_ process: ProcessFigures) {
        out.family(
            "apns_worker_log_lines_lost_total", .counter,
            "Log lines that were dropped because standard error did not take them.")
        out.sample(process.logLinesLost)
        out.family("process_cpu_seconds_total", .counter, "User and system time of all threads.")
        out.sample(process.cpuSeconds)
        out.family("process_resident_memory_bytes", .gauge, "Resident memory.")
        out.sample(process.residentBytes)
        out.family("process_start_time_seconds", .gauge, "When the worker was started, Unix time.")
        out.sample(Double(snapshot.startedMs) / 1_000)
    }
}

extension PrometheusText {
    fileprivate mutating func histogram(_ labels: Labels, _ counts: LatencyCounts) {
        let last = LatencyCounts.bucketCount - 1
        histogram(
            labels, buckets: (0..<last).map { (bound: Double(1 << $0) / 1_000, count: counts[$0]) },
            above: counts[last],
            sum: Double(counts.sumMs) / 1_000)
    }
}

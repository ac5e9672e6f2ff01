internal import Configuration
internal import Delivery
internal import Glibc
internal import HTTP2
internal import Kafka
internal import Observability
internal import PushRecords
internal import TLS

/// The page `/metrics`: a snapshot of the worker in Prometheus' text format or in OpenMetrics. Metric names follow
/// Prometheus' conventions: base units, and `_total` for counters.
struct MetricsText {
    private let snapshot: WorkerSnapshot
    private let apps: [AppRow]
    /// The apps, and a row without a name for notifications without an app.
    private let all: [AppRow]
    private var out: PrometheusText

    var text: String { out.text }

    init(_ snapshot: WorkerSnapshot, _ process: ProcessFigures, _ format: PrometheusText.Format = .prometheus) {
        self.snapshot = snapshot
        out = PrometheusText(format)
        // The format forbids duplicate samples. If an app was removed and added again, the snapshot has two entries for
        // it, and only the newer one is written.
        let newest = Dictionary(zip(snapshot.apps.map(\.name), snapshot.apps.indices)) { $1 }
        apps = newest.values.sorted().map { AppRow(app: snapshot.apps[$0], counters: snapshot.counters.apps[$0]) }
        let none = WorkerSnapshot.App(name: "", environment: .production)
        all = apps + [AppRow(app: none, counters: snapshot.counters.apps[snapshot.apps.count])]
        writeWorker()
        writeNotifications()
        writeSending()
        writePeerErrors()
        writeHealth()
        writeLatencies()
        writePartitions()
        writeKafka()
        writeClients()
        writeProcess(process)
    }

    // MARK: Families by label

    /// Begins a metric family. Without a `kind`, the family is a counter if its name ends in `_total`, and otherwise a
    /// gauge.
    private mutating func family(_ name: String, _ help: StaticString, _ kind: PrometheusText.Kind? = nil) {
        out.family("apns_worker_\(name)", kind ?? (name.hasSuffix("_total") ? .counter : .gauge), help)
    }

    private mutating func one(_ name: String, _ help: StaticString, _ value: Int) {
        family(name, help)
        out.sample(Double(value))
    }

    private mutating func perApp(
        _ name: String, _ help: StaticString, of rows: [AppRow]? = nil, _ value: (AppRow) -> Double?
    ) {
        family(name, help)
        for app in rows ?? apps { if let value = value(app) { out.sample(value, ["app": app.app.name]) } }
    }

    private mutating func perApp(
        _ name: String, _ help: StaticString, of rows: [AppRow]? = nil, _ value: KeyPath<AppRow, Int>
    ) {
        perApp(name, help, of: rows) { Double($0[keyPath: value]) }
    }

    /// Writes one sample for each app: 1 if the app meets the condition, otherwise 0.
    private mutating func flagPerApp(_ name: String, _ help: StaticString, _ holds: (AppStatus) -> Bool) {
        perApp(name, help) { $0.status.map(holds) == true ? 1 : 0 }
    }

    /// Writes, for each app, one sample for each value of the additional label `label`.
    private mutating func perApp(
        _ name: String, _ help: StaticString, by label: StaticString, of rows: [AppRow]? = nil,
        _ values: (AppRow) -> [(String, Int)]
    ) {
        family(name, help)
        for app in rows ?? apps {
            for (word, value) in values(app) { out.sample(Double(value), ["app": app.app.name, label: word]) }
        }
    }

    private mutating func perPartition(
        _ name: String, _ help: StaticString, _ value: (WorkerSnapshot.Partition) -> Double?
    ) {
        family("partition_\(name)", help)
        for partition in snapshot.partitions {
            guard let value = value(partition) else { continue }
            out.sample(value, ["topic": partition.status.topic, "partition": "\(partition.status.partition)"])
        }
    }

    private mutating func perRole(_ name: String, _ help: StaticString, _ value: (WorkerSnapshot.Role) -> Int?) {
        family(name, help)
        for role in WorkerSnapshot.Role.allCases {
            if let value = value(role) { out.sample(Double(value), ["role": role.rawValue]) }
        }
    }

    private mutating func perTopic(_ name: String, _ help: StaticString, _ counts: WorkerSnapshot.TopicCounts) {
        family(name, help)
        for (topic, records) in counts { out.sample(Double(records), ["topic": topic]) }
    }

    // MARK: Families

    private mutating func writeWorker() {
        family("build_info", "Versions of the worker, its libraries and Swift's standard library. Always 1.")
        out.sample(1, BuildInfo.labels)
        one("ready", "Readiness: 1 once the worker has joined its groups, else 0.", snapshot.isReady ? 1 : 0)
        one("degraded", "Degraded: 1 while /status lists a problem, else 0.", snapshot.problems.isEmpty ? 0 : 1)
        one("crashes_total", "Crashes after which the worker was restarted.", snapshot.crashes.total)
        one(
            "config_last_reload_successful", "Reload: 0 if the last reload of the configuration was rejected, else 1.",
            snapshot.isReloadRefused ? 0 : 1)
        family(
            "config_last_reload_success_timestamp_seconds",
            "Last successful reload of the configuration, or the start if there was none, in Unix time.")
        out.sample(Double(snapshot.reloadedMs ?? snapshot.startedMs) / 1_000)
        family(
            "problems",
            "Problems by kind and subject. The sample with both labels empty counts problems not listed in /status.")
        let problems = Dictionary(grouping: snapshot.problems) { [$0.kind.rawValue, "\($0.subject)"] }
        for (labels, alike) in problems.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            out.sample(Double(alike.count), ["kind": labels[0], "subject": labels[1]])
        }
        if snapshot.problemsLeftOut > 0 { out.sample(Double(snapshot.problemsLeftOut), ["kind": "", "subject": ""]) }
    }

    private mutating func writeNotifications() {
        perApp(
            "notifications_total",
            "Notifications by outcome, counted before Kafka's acknowledgement. The app is empty if no app matched.",
            by: "outcome", of: all
        ) { app in Outcome.allCases.map { ($0.rawValue, app.counters.outcomes[$0.index]) } }
        perApp(
            "reasons_total",
            "Answers other than 200, and rejections by the worker, by Apple's reason (none if absent, other if unknown).",
            by: "reason", of: all
        ) { app in
            ReasonCode.allCases.compactMap { code in
                let count = app.counters.reasons[Int(code.rawValue)]
                let word = code.text?.description ?? (code == .none ? "none" : "other")
                return count > 0 ? (word, count) : nil
            }
        }
        perApp(
            "in_doubt_total", "Sends without an answer, and notifications that a previous worker may have sent.",
            of: all, \.counters.inDoubt)
    }

    private mutating func writeSending() {
        perApp("sends_total", "Requests passed to connections, including resends.", \.counters.handed)
        perApp("resends_total", "Requests resent from memory, not from a retry topic.", \.counters.resends)
        perApp(
            "sent_on_total", "Notifications resent to the other environment after the answer BadDeviceToken.",
            \.counters.sentToOtherEnvironment)
        perApp(
            "window_too_short_total", "Binary protocol: errors that arrived after their resend window closed.",
            \.app.standing.window.tooShort)
        perApp(
            "window_lost_at_most_total",
            "Binary protocol: upper bound of the notifications that were presumed accepted, but not delivered.",
            \.app.standing.window.lostAtMost)
        perApp("feedback_tokens_total", "Dead tokens from the feedback service whose records Kafka acknowledged.") {
            $0.app.feedback.map { Double($0.tokens) }
        }
        perApp(
            "feedback_reads_total", "Reads of the feedback service by outcome: complete, incomplete or failed.",
            by: "outcome"
        ) { app in
            FeedbackStanding.Outcome.allCases.compactMap { outcome in
                app.app.feedback.map { (outcome.rawValue, $0.reads[outcome] ?? 0) }
            }
        }
        perApp(
            "held_total", "Notifications moved to a retry topic without using up an attempt, by cause.", by: "cause"
        ) { app in DeferralReason.allCases.map { ($0.word, app.counters.heldByCause[Int($0.rawValue)]) } }
        let tiers = snapshot.tiers
        perApp(
            "retries_total", "Moves of notifications to a retry topic that count as an attempt, by retry topic.",
            by: "tier"
        ) { Array(zip(tiers, $0.counters.retries)) }
        perApp("in_flight", "Unanswered requests, including those that wait for a free stream.") {
            Double($0.app.status?.handed ?? 0)
        }
        perApp(
            "streams_allowed", "Concurrent streams that the open connections allow in total.",
            \.app.standing.connections.streams)
        perApp(
            "concurrency_limit",
            "Limit of requests in flight: up to 9/8 of streams_allowed, less if APNs is overloaded or the environment guard slows the app."
        ) { Double($0.status?.concurrency ?? 0) }
        perApp("waiting", "Notifications ready to send and not yet in flight.") { Double($0.app.status?.ready ?? 0) }
        perApp("connections", "Connections to APNs, by state.", by: "state") {
            let counts = $0.app.standing.connections
            return [("dialing", counts.dialing), ("open", counts.open), ("draining", counts.draining)]
        }
    }

    private mutating func writePeerErrors() {
        func counts(_ errors: [Int]) -> [(String, Int)] { zip(ErrorCode.labels, errors).filter { $1 > 0 } }
        perApp("goaways_total", "GOAWAY frames from the app's host, by HTTP/2 error code.", by: "code") {
            counts($0.app.standing.peerErrors.goAways)
        }
        perApp("stream_resets_total", "RST_STREAM frames from the app's host, by HTTP/2 error code.", by: "code") {
            counts($0.app.standing.peerErrors.resets)
        }
    }

    private mutating func writeHealth() {
        flagPerApp("credential_refused", "Credential: 1 while Apple refuses it for at least one topic, else 0.") {
            $0.isCredentialRefused
        }
        flagPerApp("unreachable", "Host: 1 while notifications are deferred because no connection is usable, else 0.") {
            $0.isCutOff
        }
        flagPerApp(
            "environment_guard_tripped",
            "Environment guard: 1 while it slows the app down because Apple rejects most device tokens, else 0."
        ) { $0.isGuardTripped }
        flagPerApp("paused", "Pause: 1 while the configuration pauses the app, else 0.") { $0.isPaused }
        one(
            "circuits_opened_total", "Times that the circuit breaker of a host, credential or topic opened.",
            snapshot.counters.circuitsOpened)
        one(
            "environment_guard_trips_total", "Times that an environment guard began to slow an app down.",
            snapshot.counters.guardsTripped)
        let takenMs = snapshot.takenMs
        perApp("provider_token_age_seconds", "Age of the provider token since its iat, in seconds.") {
            $0.app.isRemoved ? nil : $0.app.standing.tokenIssuedMs.map { (Double(takenMs) - Double($0)) / 1_000 }
        }
        perApp("certificate_expiry_timestamp_seconds", "Expiry of the client certificate, in Unix time.") {
            $0.app.isRemoved ? nil : $0.app.certificateEndsMs.map { Double($0) / 1_000 }
        }
    }

    private mutating func writeLatencies() {
        family(
            "record_to_settled_seconds",
            "Seconds from a request's timestamp, or a later push-not-before, until Kafka acknowledged its outcome. The app is empty if no app matched.",
            .histogram)
        for app in all { out.histogram(["app": app.app.name], app.counters.settleTimes) }
        family(
            "request_to_response_seconds", "Seconds from passing a request to a connection until APNs answers.",
            .histogram)
        for app in apps { out.histogram(["app": app.app.name], app.counters.answerTimes) }
    }

    private mutating func writePartitions() {
        let snapshot = snapshot
        perRole("partitions", "Partitions assigned, by role: requests or retries.") { role in
            snapshot.partitions.count { $0.role == role }
        }
        perRole(
            "lag_records", "Records of assigned partitions between watermark and log end; absent while unknown."
        ) { role in snapshot.lag(of: role).map { Int(clamping: $0) } }
        perPartition("lag_records", "Records between watermark and log end; absent while unknown.") {
            $0.lag.map(Double.init)
        }
        perPartition("open_records", "Records read and not settled.") { Double($0.status.openRecords) }
        perPartition("open_notifications", "Notifications read and not settled.") {
            Double($0.status.openNotifications)
        }
        perPartition("watermark_distance", "Offsets between the watermark and the highest received offset.") {
            Double($0.status.span)
        }
        let takenMs = snapshot.takenMs
        perPartition(
            "oldest_open_age_seconds",
            "Age of the oldest record that is not settled, in seconds, or 0 if there is none."
        ) {
            $0.status.oldestOpenMs.map { Double(RecordTime.age(of: $0, nowMs: takenMs)) / 1_000 } ?? 0
        }
        perPartition("committed_offset", "Last committed offset that Kafka acknowledged.") {
            $0.status.committed.map(Double.init)
        }
        perRole("rebalances_total", "Assignments by the consumer group, including empty and unchanged ones.") {
            snapshot.memberships[$0]?.rebalances
        }
        perRole("partitions_lost_total", "Partitions lost before they were drained, such as after a session timeout.") {
            snapshot.memberships[$0]?.partitionsLost
        }
    }

    private mutating func writeKafka() {
        let (counters, gauges) = (snapshot.counters, snapshot.gauges)
        one("records_received_total", "Records read from request and retry topics.", counters.recordsReceived)
        one(
            "notifications_received_total", "Notifications in records from request and retry topics.",
            counters.notificationsAdmitted)
        one(
            "notifications_settled_total",
            "Notifications whose result, retry record or dead letter Kafka acknowledged.",
            counters.notificationsSettled)
        one("dead_letters_total", "Request and retry records that became dead letters.", counters.deadLetters)
        one(
            "duplicates_skipped_total", "Records and notifications that a previous owner's commit marks as settled.",
            counters.duplicatesSkipped)
        one("late_total", "Answers and acknowledgements for partitions that are no longer assigned.", counters.late)
        one("commits_total", "Offset commits sent.", counters.commits)
        one(
            "commits_acknowledged_total", "Partition commits that Kafka acknowledged.", counters.commitsAcknowledged)
        one("commits_refused_total", "Partition commits that Kafka refused.", counters.commitsRefused)
        one(
            "offsets_committed_total", "Offsets by which acknowledged commits advanced the committed offsets.",
            Int(counters.offsetsCommitted))
        one("maps_cut_total", "Commits whose metadata was too long and was truncated.", counters.mapsCut)
        one(
            "open_notifications", "Open notifications of all partitions (limit: delivery.max_open).",
            gauges.openNotifications)
        one("open_bytes", "Bytes of open records (limit: delivery.max_open_bytes).", gauges.openBytes)
        one("unacknowledged_records", "Records produced and not yet acknowledged by Kafka.", snapshot.unacknowledged)
        one("refused_records", "Records that Kafka refused and that wait to be produced again.", snapshot.refused)
        perTopic(
            "too_large_records_total", "Records too large for a topic; the worker produced another record instead.",
            snapshot.tooLarge)
        perTopic(
            "rejected_records_total",
            "Records that Kafka refused while it accepted others; the worker produced another record instead.",
            snapshot.rejected)
    }

    private mutating func writeClients() {
        family(
            "broker_round_trip_seconds",
            "Average time from a request to the broker's response in the last 4 s; of a fetch, including the wait for records."
        )
        for (client, health) in snapshot.clients {
            for (broker, microseconds) in health.roundTripsUs.sorted(by: { $0.key < $1.key }) {
                out.sample(Double(microseconds) / 1_000_000, ["client": client, "broker": broker])
            }
        }
        let queue = snapshot.clients.first { $0.name == "producer" }?.health.queue
        family("producer_queue_records", "Records in librdkafka's producer queue or in a request, up to 4 s ago.")
        if let queue { out.sample(Double(queue.records)) }
        family("producer_queue_bytes", "Bytes of the records in librdkafka's producer queue or in a request.")
        if let queue { out.sample(Double(queue.bytes)) }
    }

    private mutating func writeProcess(_ process: ProcessFigures) {
        one("log_lines_lost_total", "Log lines dropped because standard error was blocked.", process.logLinesLost)
        out.family("process_cpu_seconds_total", .counter, "User and system CPU time of all threads, in seconds.")
        out.sample(process.cpuSeconds)
        for (name, help, figure) in [
            ("process_resident_memory_bytes", "Resident memory in bytes.", process.residentBytes),
            ("process_open_fds", "Open file descriptors.", process.openDescriptors),
            ("process_max_fds", "Limit of open file descriptors (RLIMIT_NOFILE).", process.descriptorLimit),
        ] as [(String, StaticString, Int?)] {
            out.family(name, .gauge, help)
            if let figure { out.sample(Double(figure)) }
        }
        out.family("process_start_time_seconds", .gauge, "Start of the worker, in Unix time.")
        out.sample(Double(snapshot.startedMs) / 1_000)
    }
}

/// The versions of this build and of the libraries that it has loaded.
package enum BuildInfo {
    /// The version that `apns-worker --version`, the metrics and the status page show.
    package static let version = "1.0.0-rc.1"

    /// The labels of the metric `build_info`: the versions of the worker, of the loaded libraries and of Swift's
    /// standard library.
    static var labels: PrometheusText.Labels {
        [
            "version": version, "librdkafka": KafkaLibrary.versionText, "nghttp2": ClientSession.libraryVersion,
            "openssl": Session.libraryVersion, "swift": "\(_SwiftStdlibVersion.current)",
        ]
    }
}

private struct AppRow {
    var app: WorkerSnapshot.App
    var counters: DeliveryCounters.App

    /// The app's status, or `nil` if the app was removed from the configuration.
    var status: AppStatus? { app.isRemoved ? nil : app.status }
}

extension PrometheusText {
    fileprivate mutating func histogram(_ labels: Labels, _ counts: LatencyCounts) {
        let last = LatencyCounts.bucketCount - 1
        histogram(
            labels, buckets: (0..<last).map { (bound: Double(1 << $0) / 1_000, count: counts[$0]) },
            above: counts[last], sum: Double(counts.sumMs) / 1_000)
    }
}

struct ProcessFigures: Sendable {
    var cpuSeconds = 0.0
    /// The process's resident memory in bytes, or `nil` if /proc cannot be read.
    var residentBytes: Int?
    /// The number of open file descriptors, or `nil` if /proc cannot be read.
    var openDescriptors: Int?
    var descriptorLimit = 0
    var logLinesLost = 0

    static func read() -> ProcessFigures {
        var figures = ProcessFigures(logLinesLost: Logger.linesLost)
        // getrusage(2) and getrlimit(2) fail only if they are called with wrong arguments.
        var (usage, limit) = (rusage(), rlimit())
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        let micros = Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)
        figures.cpuSeconds = Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + micros / 1_000_000
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        figures.descriptorLimit = Int(clamping: limit.rlim_cur)
        // The second number of /proc/self/statm is the resident memory in pages (proc(5)).
        let memory = String(decoding: (try? readFile("/proc/self/statm")) ?? [], as: UTF8.self).split(separator: " ")
        if memory.count > 1, let pages = Int(memory[1]) {
            figures.residentBytes = pages * Int(sysconf(Int32(_SC_PAGESIZE)))
        }
        if let folder = opendir("/proc/self/fd") {
            // The folder also lists `.`, `..` and the descriptor with which it is read.
            var count = -3
            while readdir(folder) != nil { count += 1 }
            closedir(folder)
            figures.openDescriptors = count
        }
        return figures
    }
}

@testable import Configuration
import PushRecords
import Testing

@testable import Delivery
@testable import HTTPServer
@testable import Worker

/// The admin pages, rendered from hand-made snapshots. End-to-end tests cover the pages of a running worker.
struct AdminPagesTests {
    private func snapshot(_ phase: WorkerSnapshot.Phase) -> WorkerSnapshot {
        var snapshot = WorkerSnapshot(
            groupID: "<workers> & \"co\"", startedMs: 1_000, takenMs: 61_500,
            apps: [WorkerSnapshot.App(name: "shop", environment: .production)], tiers: ["30s", "15m"],
            counters: DeliveryCounters(apps: 1, tiers: 2),
            gauges: DeliveryGauges(openNotifications: 7, openBytes: 4_096, inFlight: [5]))
        (snapshot.phase, snapshot.isReady) = (phase, phase == .running)
        snapshot.apps[0].status = AppStatus(
            isPaused: false, open: 7, ready: 2, handed: 5,
            concurrency: 900, isGuardTripped: false, isCredentialRefused: false, isCutOff: false)
        snapshot.apps[0].standing.connections.streams = 800
        return snapshot
    }

    private func page(
        _ path: String, _ snapshot: WorkerSnapshot, turnedNs: Int64 = .max / 2, accept: String = ""
    ) -> (Int, String) {
        var snapshot = snapshot
        snapshot.takenNs = turnedNs
        let request = HTTPRequest(method: .get, path: path, accept: accept)
        let response = AdminPages.routes(StatusBoard(snapshot)).answer(request)
        guard case .bytes(let bytes) = response.body else { return (response.status, "") }
        return (response.status, String(decoding: bytes, as: UTF8.self))
    }

    @Test(arguments: [
        (WorkerSnapshot.Phase.starting, "", false, 503, "not ready: starting\n"),
        (.starting, "Kafka cannot be reached", false, 503, "not ready: Kafka cannot be reached\n"),
        (.joining, "", false, 503, "not ready: waiting for the group's first assignment\n"),
        (.running, "", true, 200, "ready\n"),
        (.stopping, "", true, 200, "ready\n"),
        (.stopping, "", false, 503, "not ready: the worker is stopping and was never ready\n"),
    ]) func `A worker becomes ready with its groups' first assignment and stays ready while it stops`(
        phase: WorkerSnapshot.Phase, problem: String, isReady: Bool, status: Int, text: String
    ) {
        var snapshot = snapshot(phase)
        if !problem.isEmpty { snapshot.problems = [Problem(.kafka, .kafkaUnreachable, problem, "look")] }
        snapshot.isReady = isReady
        #expect(page("/readyz", snapshot) == (status, text))
    }

    @Test func `A problem makes the worker degraded and leaves it ready`() {
        var snapshot = snapshot(.running)
        #expect(page("/status", snapshot).1.contains(#""health":"fine""#))
        snapshot.problems = [Problem(.kafka, .kafkaUnreachable, "no broker is connected", "look at <it>")]
        snapshot.problems[0].sinceMs = 60_000
        #expect(page("/readyz", snapshot).0 == 200)
        #expect(page("/status", snapshot).1.contains(#""health":"degraded""#))
        #expect(
            page("/status", snapshot).1.contains(
                #"{"kind":"kafka_unreachable","subject":"kafka","text":"no broker is connected","#
                    + #""advice":"look at <it>","since_ms":60000}"#))
        #expect(page("/metrics", snapshot).1.contains("\napns_worker_degraded 1\n"))
        #expect(page("/metrics", snapshot).1.contains(#"_problems{kind="kafka_unreachable",subject="kafka"} 1"#))
        let text = page("/", snapshot).1
        for words in [
            "<b>kafka</b>: no broker is connected", "What to do: look at &lt;it&gt;.", ">1 problem</strong>",
            "(kafka_unreachable, for 1 s)", "See section <b>kafka_unreachable</b> of the article Runbooks.",
        ] { #expect(text.contains(words), "\(words)") }
    }

    @Test(arguments: [false, true]) func `The pages show whether an app is paused`(isPaused: Bool) {
        var snapshot = snapshot(.running)
        snapshot.apps[0].status?.isPaused = isPaused
        let state = isPaused ? "paused" : "no connection"
        #expect(page("/", snapshot).1.contains("<td>shop</td><td>production</td><td>\(state)</td>"))
        #expect(page("/status", snapshot).1.contains(#""paused":\#(isPaused)"#))
        #expect(page("/metrics", snapshot).1.contains("\napns_worker_paused{app=\"shop\"} \(isPaused ? 1 : 0)\n"))
    }

    @Test func `Feedback metrics exist only for apps that read feedback`() {
        var snapshot = snapshot(.running)
        #expect(!page("/metrics", snapshot).1.contains("feedback_tokens_total{"))
        snapshot.apps[0].feedback = FeedbackStanding(tokens: 40, reads: [.complete: 2, .incomplete: 1])
        let text = page("/metrics", snapshot).1
        #expect(text.contains("\napns_worker_feedback_tokens_total{app=\"shop\"} 40\n"))
        for (outcome, count) in [("complete", 2), ("incomplete", 1), ("failed", 0)] {
            #expect(
                text.contains(
                    "\napns_worker_feedback_reads_total{app=\"shop\",outcome=\"\(outcome)\"} \(count)\n"))
        }
    }

    @Test func `The status page lists removed retry topics with their remaining records`() {
        var snapshot = snapshot(.running)
        snapshot.removedRetryTopics = [("apns.retry.old", 7)]
        #expect(page("/status", snapshot).1.contains(#""left_retry_topics":[{"topic":"apns.retry.old","records":7}]"#))
    }

    @Test func `The page of the configuration has the settings in use, sorted`() {
        var snapshot = snapshot(.running)
        snapshot.settings = [
            "log.level": Setting(text: "info"), "kafka.librdkafka.sasl.password": Setting(secret: "hunter2"),
        ]
        let text = #"{"kafka.librdkafka.sasl.password":"(set)","log.level":"info"}"#
        #expect(page("/configuration", snapshot) == (200, "\(text)\n"))
    }

    @Test func `The liveness check fails while the worker's core is stuck`() {
        #expect(page("/livez", snapshot(.running)).0 == 200)
        let stalled = page("/livez", snapshot(.running), turnedNs: -StatusBoard.stallNs)
        #expect(stalled.0 == 503)
        #expect(stalled.1.contains("has been stuck"))
    }

    @Test func `Lag counts from the watermark to the log's end`() {
        var snapshot = snapshot(.running)
        let status = PartitionStatus(
            topic: "apns.requests", partition: 3, watermark: 90, committed: 80, highestReceived: 95,
            span: 6,
            openRecords: 4, openNotifications: 5, oldestOpenMs: 60_000, isDraining: false)
        #expect(!page("/metrics", snapshot).1.contains("lag_records{"), "no group was joined")
        snapshot.unknownLags = []
        snapshot.partitions = [WorkerSnapshot.Partition(role: .requests, status: status, logEnd: 100)]
        let metrics = page("/metrics", snapshot).1
        for line in [
            #"apns_worker_lag_records{role="requests"} 10"#, #"apns_worker_lag_records{role="retries"} 0"#,
            #"apns_worker_partition_lag_records{topic="apns.requests",partition="3"} 10"#,
            #"apns_worker_partition_open_notifications{topic="apns.requests",partition="3"} 5"#,
            #"apns_worker_partition_watermark_distance{topic="apns.requests",partition="3"} 6"#,
            #"apns_worker_partition_oldest_open_age_seconds{topic="apns.requests",partition="3"} 1.5"#,
            #"apns_worker_partition_committed_offset{topic="apns.requests",partition="3"} 80"#,
            #"apns_worker_in_flight{app="shop"} 5"#, #"apns_worker_waiting{app="shop"} 2"#,
            #"apns_worker_open_notifications 7"#, #"apns_worker_streams_allowed{app="shop"} 800"#,
            #"apns_worker_concurrency_limit{app="shop"} 900"#,
            #"apns_worker_partition_open_records{topic="apns.requests",partition="3"} 4"#,
        ] { #expect(metrics.contains("\n\(line)\n"), "\(line)") }
    }

    @Test func `The start counts as a successful reload`() {
        var snapshot = snapshot(.running)
        func isShown(_ line: String) -> Bool {
            page("/metrics", snapshot).1.contains("\napns_worker_config_last_reload_success\(line)\n")
        }
        #expect(isShown("ful 1") && isShown("_timestamp_seconds 1"))
        (snapshot.reloadedMs, snapshot.isReloadRefused) = (5_000, true)
        #expect(isShown("ful 0") && isShown("_timestamp_seconds 5"))
    }

    @Test func `The metrics page is in OpenMetrics if the client accepts it`() {
        let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
        #expect(page("/metrics", snapshot(.running), accept: accept).1.hasSuffix("\n# EOF\n"))
    }

    /// Prometheus rejects a page with a duplicate sample.
    @Test func `An app that was removed and added again has one set of metrics`() {
        var snapshot = snapshot(.running)
        snapshot.apps.append(snapshot.apps[0])
        snapshot.apps[0].isRemoved = true
        snapshot.counters = DeliveryCounters(apps: 2, tiers: 2)
        snapshot.counters.apps[0].handed = 3
        snapshot.counters.apps[1].handed = 4
        let lines = page("/metrics", snapshot).1.split(separator: "\n").filter { !$0.hasPrefix("#") }
        #expect(lines.contains(#"apns_worker_sends_total{app="shop"} 4"#))
        let names = lines.map { $0.split(separator: " ")[0] }
        #expect(Set(names).count == names.count)
    }

    @Test func `The page escapes names`() {
        let text = page("/", snapshot(.running)).1
        #expect(text.contains("group &lt;workers&gt; &amp; &quot;co&quot;"))
        #expect(text.contains("<b>unknown</b>requests not consumed"))
        #expect(!text.contains("<workers>"))
    }

    @Test func `The page of a healthy worker shows its last minute and hour`() {
        var snapshot = snapshot(.running)
        (snapshot.host, snapshot.takenNs, snapshot.unknownLags) = ("host-1", 60_000_000_000, [])
        snapshot.hour.append(RecentHourTests.sample(at: 30, lag: 40))
        snapshot.hour.append(RecentHourTests.sample(at: 45, accepted: 1_500, lag: 40, tookMs: [3]))
        snapshot.counters.apps[0].outcomes[Outcome.accepted.index] = 1_530
        snapshot.counters.apps[0].heldByCause[Int(DeferralReason.paused.rawValue)] = 4
        snapshot.counters.apps[0].reasons[Int(ReasonCode.badTopic.rawValue)] = 2
        snapshot.counters.apps[0].answerTimes.count(100)
        snapshot.counters.apps[1].outcomes[Outcome.invalid.index] = 6
        (snapshot.apps[0].standing.lastError, snapshot.reloadedMs) = (("<refused>", 1_500), 21_500)
        snapshot.apps[0].certificateEndsMs = 61_500 + 10 * 86_400_000
        func partition(
            _ topic: String, _ role: WorkerSnapshot.Role, _ number: Int32, lag: Int64, oldestMs: Int64? = nil,
            nextDueMs: Int64? = nil
        ) {
            let status = PartitionStatus(
                topic: topic, partition: number, watermark: 0, committed: 0, highestReceived: 0, span: 0,
                openRecords: 1, openNotifications: 1, oldestOpenMs: oldestMs, isDraining: false)
            snapshot.partitions.append(.init(role: role, status: status, logEnd: lag, nextDueMs: nextDueMs))
        }
        for (number, lag) in [(0, 5), (1, 5), (2, 10)] as [(Int32, Int64)] {
            partition("r", .requests, number, lag: lag, oldestMs: number == 1 ? .min : nil)
        }
        partition("<retry>", .retries, 0, lag: 3)
        partition("<retry>", .retries, 1, lag: 8, nextDueMs: snapshot.takenMs + 12_000)
        let text = StatusPage(snapshot, isAlive: true, isUnfolded: false).text
        for words in [
            "<title>healthy: apns-worker", ">healthy</strong>", "&quot;co&quot; on host-1<", "initial-scale=1",
            "<b>20</b>requests not consumed, zero in about 30 s<", "<b>51</b>notifications per second<",
            ">accepted 100<", ">unregistered 0<", ">p50 3 ms<", ">lag 40<", "up to 40<",
            "<td>no connection</td><td>51</td><td>96 ms</td><td>128 ms</td><td>0</td><td>800</td>",
            "<td>expires in 10 d 0 h</td>", "Last connection error of shop, 1 min 0 s ago: &lt;refused&gt;<",
            "<td>4 (paused 4)</td><td>2 (BadTopic 2)</td>", "<tr><td>of no app</td>",
            "started 1 min 0 s ago, and read its\nconfiguration 40 s ago. See also",
            "<details><summary>&lt;retry&gt;: due now 4, due later 7, next in 12 s, partitions 2</summary>",
        ] { #expect(text.contains(words), "\(words): \(text)") }
        let places = ["r [2]", "r [1]", "r [0]"].map { text.firstRange(of: $0)?.lowerBound }
        #expect(places == places.sorted { $0! < $1! })
        #expect(StatusPage(snapshot, isAlive: true, isUnfolded: true).text.contains("<details open>"))
        snapshot.unknownLags = [.requests]
        let unknown = StatusPage(snapshot, isAlive: false, isUnfolded: false).text
        #expect(unknown.contains("<b>unknown</b>requests not consumed</li>") && unknown.contains(">stuck</strong>"))
    }

    @Test func `The page loads nothing`() {
        let response = AdminPages.routes(StatusBoard(snapshot(.running))).answer(HTTPRequest(method: .get, path: "/"))
        let policy = response.headers.first { $0.name == "Content-Security-Policy" }?.value
        #expect(policy?.hasPrefix("default-src 'none'; style-src 'unsafe-inline';") == true)
        let text = page("/", snapshot(.running)).1
        for words in ["<script", "src=", "http:", "https:", "@import"] { #expect(!text.contains(words)) }
    }

    @Test func `The admin pages reject every method but GET`() {
        let routes = AdminPages.routes(StatusBoard(snapshot(.running)))
        for route in routes { #expect(route.method == .get) }
        #expect(routes.answer(HTTPRequest(method: .post, path: "/metrics")).status == 405)
    }
}

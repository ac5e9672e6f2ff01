internal import Delivery
internal import JSON
internal import PushRecords

/// A snapshot as JSON: `/status`. Members are only ever added.
struct StatusText: ~Copyable {
    private let snapshot: WorkerSnapshot
    private var json = JSONWriter(capacity: 4_096)

    var text: String { json.text + "\n" }

    init(_ snapshot: WorkerSnapshot) {
        self.snapshot = snapshot
        json.beginObject()
        json.member("health", snapshot.health)
        json.member("phase", snapshot.phase.rawValue)
        if !snapshot.waitingFor.isEmpty { json.member("waiting_for", snapshot.waitingFor) }
        json.member("group_id", snapshot.groupID)
        json.member("started_at_ms", snapshot.startedMs)
        json.member("at_ms", snapshot.takenMs)
        writeProblems()
        writeApps()
        writePartitions()
        json.member("open_notifications", snapshot.gauges.openNotifications)
        json.member("unacknowledged_records", snapshot.unacknowledged)
        writeTopics()
        writeCrashes()
        json.endObject()
    }

    private mutating func writeProblems() {
        json.name("problems")
        json.beginArray()
        for problem in snapshot.problems {
            json.beginObject()
            json.member("subject", problem.subject)
            json.member("text", problem.text)
            json.member("advice", problem.advice)
            json.member("since_ms", problem.sinceMs)
            json.endObject()
        }
        json.endArray()
        if snapshot.problemsLeftOut > 0 { json.member("problems_left_out", snapshot.problemsLeftOut) }
    }

    /// What was too large for a topic and was written smaller, what one refused for another reason, and what waits in
    /// retry topics that are not configured any more.
    private mutating func writeTopics() {
        write("too_large_for_topic", snapshot.tooLarge)
        write("rejected_by_topic", snapshot.rejected)
        write("left_retry_topics", snapshot.leftTiers)
    }

    private mutating func write(_ name: StaticString, _ counts: [(topic: String, records: Int)]) {
        json.name(name)
        json.beginArray()
        for (topic, records) in counts {
            json.beginObject()
            json.member("topic", topic)
            json.member("records", records)
            json.endObject()
        }
        json.endArray()
    }

    /// `condemned`: the records that go to the dead letters unread.
    private mutating func writeCrashes() {
        let crashes = snapshot.crashes
        json.member("crashes") { json in
            json.member("total", crashes.total)
            if let last = crashes.deaths.last {
                json.member("last_signal", last.signalName)
                json.member("last_record", last.place?.description)
            }
            json.name("condemned")
            json.beginArray()
            for place in crashes.condemned.map(\.description).sorted() { json.value(place) }
            json.endArray()
        }
    }

    private mutating func writeApps() {
        json.name("apps")
        json.beginArray()
        for (index, app) in snapshot.apps.enumerated() where !app.isRemoved {
            let counters = snapshot.counters.apps[index]
            json.beginObject()
            json.member("name", app.name)
            json.member("environment", app.environment.text)
            json.member("paused", app.status?.isPaused ?? false)
            json.member("connections") { json in
                json.member("dialing", app.connections.dialing)
                json.member("open", app.connections.open)
                json.member("draining", app.connections.draining)
            }
            json.member("streams_allowed", app.connections.streams)
            json.member("in_flight", app.status?.handed ?? 0)
            json.member("waiting", app.status?.ready ?? 0)
            json.member("outcomes") { json in
                for outcome in Outcome.allCases {
                    json.member(outcome.rawValue, counters.outcomes[outcome.index])
                }
            }
            json.member("in_doubt", counters.inDoubt)
            json.member("held", counters.held)
            json.endObject()
        }
        json.endArray()
    }

    private mutating func writePartitions() {
        json.name("partitions")
        json.beginArray()
        for partition in snapshot.partitions {
            json.beginObject()
            json.member("topic", partition.status.topic)
            json.member("partition", Int64(partition.status.partition))
            json.member("role", partition.role.rawValue)
            json.member("committed", partition.status.committed)
            json.member("watermark", partition.status.watermark)
            json.member("lag", partition.lag)
            json.member("open_records", partition.status.openRecords)
            json.member("open_notifications", partition.status.openNotifications)
            json.member("oldest_open_ms", partition.status.oldestOpenMs)
            json.member("draining", partition.status.isDraining)
            json.endObject()
        }
        json.endArray()
    }
}

extension WorkerSnapshot {
    /// In one word.
    var health: String {
        if !isReady { return "starting" }
        return problems.isEmpty ? "fine" : "degraded"
    }
}

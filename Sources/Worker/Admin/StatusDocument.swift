internal import Delivery
internal import JSON
internal import PushRecords

/// The JSON document at `/status`. New versions may add members, but do not remove or rename members.
struct StatusDocument: ~Copyable {
    private var json = JSONWriter(capacity: 4_096)

    var text: String { json.text + "\n" }

    init(_ snapshot: WorkerSnapshot) {
        json.beginObject()
        json.member("health", snapshot.health)
        json.member("phase", snapshot.phase.rawValue)
        json.member("group_id", snapshot.groupID)
        json.member("started_at_ms", snapshot.startedMs)
        json.member("at_ms", snapshot.takenMs)
        list("problems", snapshot.problems) { json, problem in
            json.member("kind", problem.kind.rawValue)
            json.member("subject", "\(problem.subject)")
            json.member("text", problem.text)
            json.member("advice", problem.advice)
            json.member("since_ms", problem.sinceMs)
        }
        if snapshot.problemsLeftOut > 0 { json.member("problems_left_out", snapshot.problemsLeftOut) }
        list("apps", zip(snapshot.apps, snapshot.counters.apps).filter { !$0.0.isRemoved }) { json, row in
            Self.write(row.0, row.1, to: &json)
        }
        list("partitions", snapshot.partitions) { json, partition in
            let status = partition.status
            json.member("topic", status.topic)
            json.member("partition", Int(status.partition))
            json.member("role", partition.role.rawValue)
            json.member("committed", status.committed)
            json.member("watermark", status.watermark)
            json.member("lag", partition.lag)
            json.member("open_records", status.openRecords)
            json.member("open_notifications", status.openNotifications)
            json.member("oldest_open_ms", status.oldestOpenMs)
            json.member("draining", status.isDraining)
            json.member("next_due_ms", partition.nextDueMs)
        }
        json.member("open_notifications", snapshot.gauges.openNotifications)
        json.member("unacknowledged_records", snapshot.unacknowledged)
        for (name, counts) in [
            ("too_large_for_topic", snapshot.tooLarge), ("rejected_by_topic", snapshot.rejected),
            ("left_retry_topics", snapshot.removedRetryTopics),
        ] {
            list(name, counts) { json, count in
                json.member("topic", count.topic)
                json.member("records", count.records)
            }
        }
        json.member("crashes") { Self.write(snapshot.crashes, to: &$0) }
        json.endObject()
    }

    private mutating func list<Row>(_ name: String, _ rows: [Row], _ write: (inout JSONWriter, Row) -> Void) {
        json.name(name)
        json.beginArray()
        for row in rows {
            json.beginObject()
            write(&json, row)
            json.endObject()
        }
        json.endArray()
    }

    private static func write(_ app: WorkerSnapshot.App, _ counters: DeliveryCounters.App, to json: inout JSONWriter) {
        let connections = app.standing.connections
        json.member("name", app.name)
        json.member("environment", app.environment.text)
        json.member("paused", app.status?.isPaused ?? false)
        json.member("connections") { json in
            json.member("dialing", connections.dialing)
            json.member("open", connections.open)
            json.member("draining", connections.draining)
        }
        json.member("streams_allowed", connections.streams)
        json.member("in_flight", app.status?.handed ?? 0)
        json.member("waiting", app.status?.ready ?? 0)
        json.member("outcomes") { json in
            for outcome in Outcome.allCases { json.member(outcome.rawValue, counters.outcomes[outcome.index]) }
        }
        json.member("in_doubt", counters.inDoubt)
        json.member("held", counters.held)
    }

    /// Writes the crash history. `condemned` lists the records that become dead letters without being parsed.
    private static func write(_ crashes: CrashHistory, to json: inout JSONWriter) {
        json.member("total", crashes.total)
        if let last = crashes.deaths.last {
            json.member("last_signal", last.signalName)
            json.member("last_record", last.places.isEmpty ? nil as String? : last.record)
        }
        json.name("condemned")
        json.beginArray()
        for place in crashes.condemned.map(\.description).sorted() { json.value(place) }
        json.endArray()
    }
}

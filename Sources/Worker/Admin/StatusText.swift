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
        json.name("health")
        json.value(snapshot.health)
        json.name("phase")
        json.value(snapshot.phase.rawValue)
        if !snapshot.waitingFor.isEmpty {
            json.name("waiting_for")
            json.value(snapshot.waitingFor)
        }
        json.name("group_id")
        json.value(snapshot.groupID)
        json.name("started_at_ms")
        json.value(snapshot.startedMs)
        json.name("at_ms")
        json.value(snapshot.takenMs)
        writeProblems()
        writeApps()
        writePartitions()
        json.name("open_notifications")
        json.value(snapshot.gauges.openNotifications)
        json.name("unacknowledged_records")
        json.value(snapshot.unacknowledged)
        json.endObject()
    }

    private mutating func writeProblems() {
        json.name("problems")
        json.beginArray()
        for problem in snapshot.problems {
            json.beginObject()
            json.name("subject")
            json.value(problem.subject)
            json.name("text")
            json.value(problem.text)
            json.endObject()
        }
        json.endArray()
    }

    private mutating func writeApps() {
        json.name("apps")
        json.beginArray()
        for (index, app) in snapshot.apps.enumerated() where !app.isRemoved {
            let counters = snapshot.counters.apps[index]
            json.beginObject()
            json.name("name")
            json.value(app.name)
            json.name("environment")
            json.value(app.environment.text)
            json.name("paused")
            json.value(app.status?.isPaused ?? false)
            json.name("connections")
            json.beginObject()
            json.name("dialing")
            json.value(app.connections.dialing)
            json.name("open")
            json.value(app.connections.open)
            json.name("draining")
            json.value(app.connections.draining)
            json.endObject()
            json.name("streams_allowed")
            json.value(app.status?.capacity ?? 0)
            json.name("in_flight")
            json.value(app.status?.handed ?? 0)
            json.name("waiting")
            json.value(app.status?.ready ?? 0)
            json.name("outcomes")
            json.beginObject()
            for outcome in Outcome.allCases {
                json.name(outcome.rawValue)
                json.value(counters.outcomes[outcome.place])
            }
            json.endObject()
            json.name("in_doubt")
            json.value(counters.inDoubt)
            json.name("held")
            json.value(counters.held)
            json.endObject()
        }
        json.endArray()
    }

    private mutating func writePartitions() {
        json.name("partitions")
        json.beginArray()
        for partition in snapshot.partitions {
            json.beginObject()
            json.name("topic")
            json.value(partition.status.topic)
            json.name("partition")
            json.value(Int64(partition.status.partition))
            json.name("role")
            json.value(partition.role.rawValue)
            json.name("committed")
            write(partition.status.committed)
            json.name("watermark")
            write(partition.status.watermark)
            json.name("lag")
            write(partition.lag)
            json.name("open_records")
            json.value(partition.status.openRecords)
            json.name("open_notifications")
            json.value(partition.status.openNotifications)
            json.name("oldest_open_ms")
            write(partition.status.oldestOpenMs)
            json.name("draining")
            json.value(partition.status.isDraining)
            json.endObject()
        }
        json.endArray()
    }

    private mutating func write(_ value: Int64?) {
        if let value { json.value(value) } else { json.null() }
    }
}

extension WorkerSnapshot {
    /// In one word.
    var health: String {
        if !isReady { return "starting" }
        return problems.isEmpty ? "fine" : "degraded"
    }
}

internal import Delivery

/// An app in the metrics. One that was taken out of the configuration and came back is one: its counters go on.
struct AppRow {
    let name: String
    let counters: DeliveryCounters.App
    let connections: ConnectionCounts
    let inFlight: Int
    let waiting: Int
    let window: AppTransports.WindowFaults
    /// `nil`: none was ever read.
    let feedback: FeedbackStanding?
    /// Of the one that is there.
    let status: AppStatus?

    static func rows(of snapshot: WorkerSnapshot) -> [AppRow] {
        var rows: [AppRow] = []
        var indexes: [String: Int] = [:]
        for (app, counters) in zip(snapshot.apps, snapshot.counters.apps) {
            let row = AppRow(
                name: app.name, counters: counters, connections: app.connections, inFlight: app.status?.handed ?? 0,
                waiting: app.status?.ready ?? 0, window: app.window, feedback: app.feedback,
                status: app.isRemoved ? nil : app.status)
            if let index = indexes[app.name] {
                rows[index] = rows[index].sum(with: row)
            } else {
                indexes[app.name] = rows.count
                rows.append(row)
            }
        }
        return rows
    }

    private func sum(with other: AppRow) -> AppRow {
        AppRow(
            name: name, counters: counters.sum(with: other.counters),
            connections: connections.sum(with: other.connections), inFlight: inFlight + other.inFlight,
            waiting: waiting + other.waiting, window: window.sum(with: other.window),
            feedback: feedback.map { $0.sum(with: other.feedback) } ?? other.feedback, status: other.status ?? status)
    }
}

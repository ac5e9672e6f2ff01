internal import Delivery

/// An app in the metrics. One that was taken out of the configuration and came back is one: its counters go on.
struct AppRow {
    let name: String
    private(set) var counters: DeliveryCounters.App
    private(set) var connections: ConnectionCounts
    private(set) var inFlight: Int
    private(set) var waiting: Int
    private(set) var window: AppTransports.WindowFaults
    /// `nil`: none was ever read.
    private(set) var feedback: FeedbackStanding?
    /// Of the one that is there.
    private(set) var status: AppStatus?

    static func rows(of snapshot: WorkerSnapshot) -> [AppRow] {
        var rows: [AppRow] = []
        var places: [String: Int] = [:]
        for (app, counters) in zip(snapshot.apps, snapshot.counters.apps) {
            let row = AppRow(
                name: app.name, counters: counters, connections: app.connections, inFlight: app.status?.handed ?? 0,
                waiting: app.status?.ready ?? 0, window: app.window, feedback: app.feedback,
                status: app.isRemoved ? nil : app.status)
            if let place = places[app.name] {
                rows[place].add(row)
            } else {
                places[app.name] = rows.count
                rows.append(row)
            }
        }
        return rows
    }

    private mutating func add(_ other: AppRow) {
        counters.add(other.counters)
        connections.dialing += other.connections.dialing
        connections.open += other.connections.open
        connections.draining += other.connections.draining
        connections.streams += other.connections.streams
        inFlight += other.inFlight
        waiting += other.waiting
        window.tooShort += other.window.tooShort
        window.lostAtMost += other.window.lostAtMost
        if let other = other.feedback {
            var sum = feedback ?? FeedbackStanding()
            sum.add(other)
            feedback = sum
        }
        status = other.status ?? status
    }
}

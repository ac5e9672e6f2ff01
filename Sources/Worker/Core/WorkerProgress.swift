/// What a worker is doing, for whoever shows it; a copy, made at most every 50 ms.
package struct WorkerProgress: Sendable, Equatable {
    /// Records read from request and retry topics.
    package var recordsRead = 0
    /// Notifications handed to connections and not answered.
    package var inFlight = 0
    /// Notifications read and not settled.
    package var open = 0
    package var connections = 0
    package var partitions = 0
    /// Whether the group has answered once.
    package var hasJoined = false

    package init() {}
}

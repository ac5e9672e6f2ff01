/// What a worker is doing, for whoever shows it; a copy, made at most every 50 ms.
package struct WorkerProgress: Sendable, Equatable {
    /// Notifications handed to connections and not answered.
    package var inFlight = 0
    package var connections = 0
    /// Whether the group has answered once.
    package var hasJoined = false

    package init() {}
}

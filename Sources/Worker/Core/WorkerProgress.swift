package import Delivery

/// What a worker is doing, for whoever shows it; a copy, made at most every 50 ms.
package struct WorkerProgress: Sendable {
    package var delivery = DeliveryCounters()
    /// Records read from request and retry topics.
    package var recordsRead = 0
    package var connections = 0
    package var partitions = 0
    package var hasJoined = false

    package init() {}
}

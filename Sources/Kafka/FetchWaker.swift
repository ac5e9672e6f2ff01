/// Wakes the fetchers of a librdkafka older than 2.2.0 while records are taken out of their queues.
///
/// A broker's thread that finds the queues of all its partitions above their limits sleeps for up to a second, however
/// soon they are read. Version 2.2.0 has `fetch.queue.backoff.ms` instead. Consumer's thread.
struct FetchWaker {
    /// How much is taken between two calls: less than the queues of all partitions hold, so that they never run dry,
    /// and enough that waking each broker's thread a few hundred times a second at full load costs little.
    private static let portionBytes = 128 << 10

    private let client: ClientHandle
    private let portionBytes: Int
    private var takenBytes = 0

    /// Returns `nil` where librdkafka does not need it. `properties` are the client's.
    init?(_ client: ClientHandle, _ properties: [KafkaProperty]) {
        guard !KafkaLibrary.hasFetchQueueBackOff else { return nil }
        self.client = client
        let limit = properties.value("queued.max.messages.kbytes").flatMap { Int($0) } ?? 65_536
        portionBytes = max(1, min(Self.portionBytes, (limit << 10) / 2))
    }

    /// Notes that so many bytes of keys and values were taken out of a partition's queue.
    mutating func took(_ bytes: Int) {
        takenBytes += bytes
        guard takenBytes >= portionBytes else { return }
        takenBytes = 0
        client.wakeFetchers()
    }
}

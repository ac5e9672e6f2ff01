/// Wakes the fetch threads of a librdkafka before 2.2.0 while records are taken from their queues.
///
/// A broker's thread that finds all its partitions' queues full sleeps for up to a second, even if the queues are read
/// sooner. Version 2.2.0 has `fetch.queue.backoff.ms` instead. Used on the consumer's thread only.
struct FetchWaker {
    /// The number of bytes taken between two wake-ups. It is less than the size of all queues, which therefore never
    /// run empty. It is large enough that waking each thread a few hundred times a second at full load costs little.
    private static let portionBytes = 128 << 10

    private let client: ClientHandle
    private let portionBytes: Int
    private var takenBytes = 0

    /// Returns `nil` if this librdkafka needs no wake-ups. `properties` are the properties with which the client was
    /// created.
    init?(_ client: ClientHandle, _ properties: [KafkaProperty]) {
        guard !KafkaLibrary.hasFetchQueueBackOff else { return nil }
        self.client = client
        let limit = properties.value("queued.max.messages.kbytes").flatMap { Int($0) } ?? 65_536
        portionBytes = max(1, min(Self.portionBytes, (limit << 10) / 2))
    }

    /// Records that `bytes` bytes of keys and values were taken from a partition's queue.
    mutating func took(_ bytes: Int) {
        takenBytes += bytes
        guard takenBytes >= portionBytes else { return }
        takenBytes = 0
        client.wakeFetchers()
    }
}

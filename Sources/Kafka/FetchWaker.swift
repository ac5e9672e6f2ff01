/// Wakes the fetch threads of a librdkafka before 2.2.0 while records are taken from their queues.
///
/// A broker thread that finds the queues of all its partitions full sleeps for up to a second, even if the application
/// reads the queues sooner. Version 2.2.0 has `fetch.queue.backoff.ms` instead. Used on the consumer's thread only.
struct FetchWaker {
    /// The number of bytes taken between two wake-ups. It is smaller than the capacity of all queues together, so the
    /// queues never run empty. It is large enough that the wake-ups cost little: a few hundred a second for each thread
    /// at full load.
    private static let portionBytes = 128 << 10

    private let client: ClientHandle
    private let portionBytes: Int
    private var takenBytes = 0

    /// Creates a waker, or returns `nil` if this librdkafka needs none. `properties` are the properties with which the
    /// client was created.
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

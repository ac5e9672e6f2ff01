import CRdkafka

/// Wakes the fetchers of a librdkafka older than 2.2.0 while records are taken out of their queues. Consumer's thread.
///
/// A broker's thread that finds the queues of all its partitions above their limits goes to sleep for up to a second,
/// however soon they are read (2.2.0 has `fetch.queue.backoff.ms` for that). Of all calls that wake it, setting the
/// SASL credentials is the one that asks nothing of a broker and touches nothing that was fetched (rdkafka.h: "will not
/// disconnect existing connections"): they are set to what they are.
@safe final class FetchWaker {
    /// What is taken between two calls: less than the queues of all partitions hold, so that they never run dry, and
    /// enough that waking the thread of each broker, a few hundred times a second at full load, costs next to nothing.
    private static let portionBytes = 128 << 10

    private let client: ClientHandle
    private let username: String
    private let password: String
    private let portionBytes: Int
    private var takenBytes = 0

    /// `nil` where librdkafka does not need it. `properties` are the client's.
    init?(_ client: ClientHandle, _ properties: [KafkaProperty]) {
        guard !KafkaLibrary.hasFetchQueueBackOff else { return nil }
        func value(_ name: String) -> String? { properties.last { $0.name == name }?.value }
        self.client = client
        username = value("sasl.username") ?? ""
        password = value("sasl.password") ?? ""
        let limit = value("queued.max.messages.kbytes").flatMap { Int($0) } ?? 65_536
        portionBytes = max(1, min(Self.portionBytes, (limit << 10) / 2))
    }

    /// `bytes` of keys and values were taken out of a partition's queue.
    func took(_ bytes: Int) {
        takenBytes += bytes
        guard takenBytes >= portionBytes else { return }
        takenBytes = 0
        // It refuses nothing but null.
        try? unsafe check(rd_kafka_sasl_set_credentials(client.raw, username, password))
    }
}

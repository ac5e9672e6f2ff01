import CRdkafka
import Glibc

/// One `rd_kafka_t` of a producer with its topics and its queue of reports.
@safe final class ProducerClient {
    let handle: ClientHandle
    /// By `ProducerTopic.index`; owned.
    let topics: UnsafeMutablePointer<OpaquePointer?>
    private var topicCount = 0
    private static let topicLimit = 256
    private let queue: OpaquePointer

    init(_ settings: ProducerSettings, wakeUpDescriptor: Int32) throws(KafkaError) {
        handle = try ClientHandle(
            .producer, settings.all,
            events: RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG | RD_KAFKA_EVENT_STATS)
        unsafe queue = rd_kafka_queue_get_main(handle.raw)
        unsafe topics = .allocate(capacity: Self.topicLimit)
        unsafe topics.initialize(repeating: nil, count: Self.topicLimit)
        try unsafe handle.sendLog(to: queue)
        if wakeUpDescriptor >= 0 { unsafe enableWakeUps(of: queue, descriptor: wakeUpDescriptor) }
    }

    deinit {
        for index in 0..<topicCount { unsafe rd_kafka_topic_destroy(topics[index]) }
        unsafe topics.deallocate()
        unsafe rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
        unsafe rd_kafka_queue_destroy(queue)
    }

    /// Adds the topic at `index`, which reports carry as the topic's opaque (plus one).
    func add(_ name: String, index: Int) throws(KafkaError) {
        precondition(index == topicCount, "topics are added in order")
        guard index < Self.topicLimit else {
            throw KafkaError(.invalidArgument, "a producer writes to at most \(Self.topicLimit) topics")
        }
        let configuration: OpaquePointer = unsafe rd_kafka_default_topic_conf_dup(handle.raw)
        unsafe rd_kafka_topic_conf_set_opaque(configuration, UnsafeMutableRawPointer(bitPattern: index + 1))
        // Takes the configuration over, also when it fails (rdkafka.h does not say so, rd_kafka_topic_new0 frees it).
        guard let topic = unsafe rd_kafka_topic_new(handle.raw, name, configuration) else {
            throw KafkaError(
                KafkaCode(rd_kafka_last_error()), "topic \(name): \(KafkaCode(rd_kafka_last_error()).text)")
        }
        unsafe topics[index] = topic
        topicCount += 1
    }

    var outstanding: Int { Int(unsafe rd_kafka_outq_len(handle.raw)) }

    /// Gives up on all records, those with a broker too; each gets its report. Waits for nothing.
    func purge() {
        // Else it waits without limit for every broker's thread, and one may be looking up a name.
        let flags = RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING
        _ = unsafe rd_kafka_purge(handle.raw, flags)
    }

    @discardableResult
    func serve(timeoutMs: Int32, report: (borrowing DeliveryReport) -> Void, event: (ClientEvent) -> Void) -> Int {
        var count = 0
        var timeoutMs = timeoutMs
        while let next = unsafe QueueEvent(polling: queue, timeoutMs: timeoutMs) {
            timeoutMs = 0
            if next.type == RD_KAFKA_EVENT_DR {
                while let message = unsafe rd_kafka_event_message_next(next.raw) {
                    report(unsafe DeliveryReport(of: message))
                    count += 1
                }
            } else if let translated = next.clientEvent(of: handle) {
                event(translated)
            }
        }
        return count
    }
}

/// The monotonic clock, for deadlines of calls that wait.
enum Stopwatch {
    static var nowMs: Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}

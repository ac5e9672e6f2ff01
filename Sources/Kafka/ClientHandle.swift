import CRdkafka
import Glibc

package struct InvalidProperty: Error, Hashable, Sendable, CustomStringConvertible {
    package let property: KafkaProperty
    /// librdkafka's error text, with the property's name.
    package let text: String

    package var description: String { text }
}

/// The only owner of an `rd_kafka_t` and of the queue of its log lines and events. Code that uses another object of the
/// client (a queue, a topic) also holds the handle, so that the client is destroyed last.
@safe final class ClientHandle {
    let raw: OpaquePointer
    /// The queue of events: the consumer group's queue, or the client's main queue if there is no group.
    let queue: OpaquePointer
    private let wakeUpDescriptor: Int32
    /// Errors of partitions. The next call to `Consumer.serve` delivers them.
    var partitionFailures: [ConsumerEvent] = []
    private let username: String
    private let password: String
    /// The number of bytes taken from the queues after which to wake the fetch threads. It is at most half of a queue's
    /// capacity, so that librdkafka fetches again before a full queue is empty. It is large enough that the wake-ups
    /// cost little: a few hundred a second for each thread at full load.
    private let wakeUpBytes: Int
    private var takenBytes = 0

    /// - Parameters:
    ///   - events: the types of events to receive in addition to errors and log lines.
    ///   - wakeUpDescriptor: an eventfd(2) to which librdkafka adds 1 when the queue of events is no longer empty, or
    ///     -1 for none.
    init(
        _ kind: rd_kafka_type_t, _ properties: [KafkaProperty], events: Int32 = 0, wakeUpDescriptor: Int32 = -1
    ) throws(KafkaError) {
        let configuration: OpaquePointer
        do throws(InvalidProperty) {
            unsafe configuration = try Self.configuration(properties)
        } catch {
            throw KafkaError(.invalidArgument, error.text)
        }
        unsafe rd_kafka_conf_set_events(configuration, RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG | events)
        var text = [CChar](repeating: 0, count: 512)
        // The client owns the configuration only on success (rdkafka.h, rd_kafka_new). After a failure, leak the
        // configuration's 10 KB: librdkafka may have freed parts of it, which rd_kafka_conf_destroy would free again
        // (librdkafka's issue 4142).
        guard let raw = unsafe rd_kafka_new(kind, configuration, &text, text.count) else {
            let code = KafkaCode(rd_kafka_last_error())
            throw KafkaError(
                code, code == .noResources ? "\(Self.string(text)); \(KafkaCode.roomForThreads)" : Self.string(text))
        }
        unsafe self.raw = raw
        // rd_kafka_poll_set_consumer fails for a consumer without a group, which has no group queue.
        let hasGroup = unsafe kind == RD_KAFKA_CONSUMER && rd_kafka_poll_set_consumer(raw) == RD_KAFKA_RESP_ERR_NO_ERROR
        unsafe queue = hasGroup ? rd_kafka_queue_get_consumer(raw) : rd_kafka_queue_get_main(raw)
        self.wakeUpDescriptor = wakeUpDescriptor
        username = properties.value("sasl.username") ?? ""
        password = properties.value("sasl.password") ?? ""
        let kilobytes = properties.value("queued.max.messages.kbytes").flatMap { Int($0) } ?? 65_536
        wakeUpBytes = KafkaLibrary.hasFetchQueueBackOff ? .max : min(128 << 10, kilobytes << 9)
        // The call fails only for the client of the mock brokers, which does not set `log.queue` and logs nothing.
        unsafe rd_kafka_set_log_queue(raw, queue)
        unsafe enableWakeUps(of: queue)
        if properties.contains(TokenCommand.method) { try unsafe TokenCommand.start(raw) }
    }

    /// Destroys the client without leaving the group and without a commit. Usually waits at most a second for
    /// librdkafka's threads (`ClientReaper`). Destroy all other queues and topics of the client first.
    deinit {
        unsafe rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
        unsafe rd_kafka_queue_destroy(queue)
        unsafe ClientReaper.destroy(raw)
    }

    /// Calls `body` for each event in the queue. Waits up to `timeoutMs` for the first one.
    func poll(timeoutMs: Int32, _ body: (borrowing QueueEvent) -> Void) {
        var timeoutMs = timeoutMs
        while let event = unsafe QueueEvent(polling: queue, timeoutMs: timeoutMs) {
            timeoutMs = 0
            body(event)
        }
    }

    /// Makes librdkafka add 1 to the eventfd(2) when the queue is no longer empty. Does nothing without an eventfd.
    func enableWakeUps(of queue: OpaquePointer) {
        var one: UInt64 = 1
        // An eventfd(2) accepts only writes of eight bytes. librdkafka keeps a copy of `one` (rdkafka.h).
        unsafe rd_kafka_queue_io_event_enable(queue, wakeUpDescriptor, &one, MemoryLayout<UInt64>.size)
    }

    func clientEvents() -> [ClientEvent] {
        var events: [ClientEvent] = []
        poll(timeoutMs: 0) { if let event = $0.clientEvent(of: self) { events.append(event) } }
        return events
    }

    var fatalError: KafkaError? {
        var text = [CChar](repeating: 0, count: 512)
        let code = KafkaCode(unsafe rd_kafka_fatal_error(raw, &text, text.count))
        return code == .none ? nil : KafkaError(code, Self.string(text))
    }

    /// Wakes librdkafka's thread of each broker. Before librdkafka 2.2.0, such a thread sleeps for up to a second when
    /// it has nothing to fetch. Of all calls that wake the threads, only setting the SASL credentials sends no request
    /// and drops no fetched records (rdkafka.h: "will not disconnect existing connections").
    func wakeFetchers() { try? unsafe check(rd_kafka_sasl_set_credentials(raw, username, password)) }

    /// Counts bytes of keys and values that were taken from a queue, and wakes the fetch threads after every
    /// `wakeUpBytes`. Call it on the consumer's thread only.
    func took(_ bytes: Int) {
        takenBytes += bytes
        guard takenBytes >= wakeUpBytes else { return }
        takenBytes = 0
        wakeFetchers()
    }

    /// Returns a topic's handle, which the caller owns. Takes ownership of `configuration` even if the call throws.
    func makeTopic(_ name: String, _ configuration: OpaquePointer? = nil) throws(KafkaError) -> OpaquePointer {
        guard let topic = unsafe rd_kafka_topic_new(raw, name, configuration) else {
            throw KafkaError.last("topic \(name)")
        }
        return unsafe topic
    }

    private static func configuration(_ properties: [KafkaProperty]) throws(InvalidProperty) -> OpaquePointer {
        let configuration: OpaquePointer = unsafe rd_kafka_conf_new()
        var text = [CChar](repeating: 0, count: 512)
        for property in properties {
            if property == TokenCommand.method {
                unsafe TokenCommand.prepare(configuration)
                continue
            }
            let result = unsafe rd_kafka_conf_set(configuration, property.name, property.value, &text, text.count)
            guard result != RD_KAFKA_CONF_OK else { continue }
            unsafe rd_kafka_conf_destroy(configuration)
            let reason = string(text)
            throw InvalidProperty(
                property: property, text: reason.contains(property.name) ? reason : "\(property.name): \(reason)")
        }
        return unsafe configuration
    }

    static func validate(_ properties: [KafkaProperty]) throws(InvalidProperty) {
        unsafe rd_kafka_conf_destroy(try configuration(properties))
    }

    static func string(_ buffer: [CChar]) -> String {
        String(decoding: buffer.prefix { $0 != 0 }.lazy.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension KafkaProperties {
    /// Throws for the first of the user's properties that librdkafka does not know, or whose value it rejects.
    package func validate() throws(InvalidProperty) {
        for list in [common, consumer, producer] { try ClientHandle.validate(list) }
    }
}

/// The loaded librdkafka, which may be newer than the headers.
package enum KafkaLibrary {
    /// The version in the format of `RD_KAFKA_VERSION`: 0xMMmmrrff.
    package static var version: Int32 { rd_kafka_version() }

    /// The version as text, such as `2.0.2`.
    package static var versionText: String { unsafe String(cString: rd_kafka_version_str()) }

    /// Whether the library can fetch OAUTHBEARER tokens. A build without OIDC rejects the property
    /// `sasl.oauthbearer.method`.
    static var hasOIDC: Bool {
        (try? ClientHandle.validate([KafkaProperty("sasl.oauthbearer.method", "oidc")])) != nil
    }

    /// Whether a broker thread that finds the queues of all its partitions full checks the queues again by itself
    /// (`fetch.queue.backoff.ms`, since 2.2.0). In older versions the thread sleeps for up to a second, even if the
    /// application reads the queues sooner, so `ClientHandle.took` wakes it.
    static var hasFetchQueueBackOff: Bool { version >= 0x0202_0000 }

    /// Whether the library can log in to Kafka 4 with SCRAM. Older versions send a wrong nonce
    /// (<https://github.com/confluentinc/librdkafka/pull/4895>).
    package static var hasCorrectSCRAM: Bool { version >= 0x0206_01ff }

    /// Whether `crdkafka_topic_ids` can return ids: librdkafka's headers declare rd_kafka_DescribeTopics since 2.3.0.
    static var tellsTopicIDs: Bool { RD_KAFKA_VERSION >= 0x0203_00ff }

    /// The library's properties and their aliases, from the first and third columns of the table that librdkafka
    /// prints. `range` is the third column's text, such as `none, gzip, snappy, lz4, zstd` or `0 .. 900000`. It is
    /// empty for free text.
    package static var knownProperties: [(name: String, range: String)] {
        var text: UnsafeMutablePointer<CChar>?
        var size = 0
        guard let file = unsafe open_memstream(&text, &size) else { return [] }
        unsafe rd_kafka_conf_properties_show(file)
        unsafe fclose(file)
        guard let text = unsafe text else { return [] }
        defer { unsafe free(text) }
        return unsafe String(cString: text).split(separator: "\n").compactMap { row in
            let columns = row.split(separator: "|", maxSplits: 3)
            // Skip headings and separator lines, which have no property name in the first column.
            guard columns.count == 4, let name = columns[0].split(separator: " ").first, name.first?.isLowercase == true
            else { return nil }
            return (String(name), columns[2].split(separator: " ").joined(separator: " "))
        }
    }
}

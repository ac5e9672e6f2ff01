import CRdkafka
import Glibc

package struct InvalidProperty: Error, Hashable, Sendable, CustomStringConvertible {
    package let property: KafkaProperty
    /// librdkafka's sentence, which names the property or the one that it is an alias of.
    package let text: String

    package var description: String { text }
}

/// The one owner of an `rd_kafka_t` and of the queue to which its log and events come. Code that keeps something else
/// of the client (a queue, a topic) keeps the handle, so that the client is destroyed last.
@safe final class ClientHandle {
    let raw: OpaquePointer
    /// The queue of events: the group's for a consumer with a group, else the client's main queue.
    let queue: OpaquePointer
    private let username: String
    private let password: String

    /// - Parameters:
    ///   - events: the events to get besides errors and the log.
    ///   - wakeUpDescriptor: an eventfd(2) that gets 1 added when the queue of events is no longer empty; -1 for none.
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
        // The client owns the configuration only on success (rdkafka.h, rd_kafka_new). After a failure these 10 KB
        // leak: a part may be freed already, and rd_kafka_conf_destroy would free it twice (librdkafka's issue 4142).
        guard let raw = unsafe rd_kafka_new(kind, configuration, &text, text.count) else {
            let code = KafkaCode(rd_kafka_last_error())
            throw KafkaError(
                code, code == .noResources ? "\(Self.string(text)); \(KafkaCode.roomForThreads)" : Self.string(text))
        }
        unsafe self.raw = raw
        // A consumer without a group has no queue of its own, and this fails.
        let hasGroup = unsafe kind == RD_KAFKA_CONSUMER && rd_kafka_poll_set_consumer(raw) == RD_KAFKA_RESP_ERR_NO_ERROR
        unsafe queue = hasGroup ? rd_kafka_queue_get_consumer(raw) : rd_kafka_queue_get_main(raw)
        username = properties.value("sasl.username") ?? ""
        password = properties.value("sasl.password") ?? ""
        // Fails for the mock brokers' client, which logs nothing.
        unsafe rd_kafka_set_log_queue(raw, queue)
        if wakeUpDescriptor >= 0 { unsafe enableWakeUps(of: queue, descriptor: wakeUpDescriptor) }
    }

    /// Neither leaves the group nor commits. Waits up to a second for librdkafka's threads. Every other queue and topic
    /// of the client must be gone.
    deinit {
        unsafe rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
        unsafe rd_kafka_queue_destroy(queue)
        unsafe ClientReaper.destroy(raw)
    }

    /// Hands out the events that have come, waiting at most `timeoutMs` for the first.
    func poll(timeoutMs: Int32, _ body: (borrowing QueueEvent) -> Void) {
        var timeoutMs = timeoutMs
        while let event = unsafe QueueEvent(polling: queue, timeoutMs: timeoutMs) {
            timeoutMs = 0
            body(event)
        }
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

    /// Wakes the threads of all brokers, which before librdkafka 2.2.0 sleep for up to a second when they have nothing
    /// to fetch. Of all calls that wake them, setting the SASL credentials is the one that asks a broker for nothing
    /// and drops nothing that was fetched (rdkafka.h: "will not disconnect existing connections").
    func wakeFetchers() { try? unsafe check(rd_kafka_sasl_set_credentials(raw, username, password)) }

    /// Returns a topic's handle, which the caller owns. Takes over `configuration`, also when it throws.
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

/// Has a queue write the number 1 to an eventfd(2) when it is no longer empty.
func enableWakeUps(of queue: OpaquePointer, descriptor: Int32) {
    var one: UInt64 = 1
    // The payload is copied; it must be one that the descriptor takes whole (rdkafka.h).
    unsafe rd_kafka_queue_io_event_enable(queue, descriptor, &one, MemoryLayout<UInt64>.size)
}

extension KafkaProperties {
    /// Throws for the first of the user's properties that librdkafka does not know, or whose value it refuses.
    package func validate() throws(InvalidProperty) {
        for list in [common, consumer, producer] { try ClientHandle.validate(list) }
    }
}

/// The librdkafka that runs, which may be newer than the headers.
package enum KafkaLibrary {
    /// The version in the form of `RD_KAFKA_VERSION`: 0xMMmmrrff.
    package static var version: Int32 { rd_kafka_version() }

    /// Whether the library fetches OAUTHBEARER tokens by itself. It refuses the property where it was built without.
    static var hasOIDC: Bool {
        (try? ClientHandle.validate([KafkaProperty("sasl.oauthbearer.method", "oidc")])) != nil
    }

    /// Whether a fetcher above its limits checks again by itself (`fetch.queue.backoff.ms`, since 2.2.0), or sleeps
    /// until it is woken (`FetchWaker`).
    static var hasFetchQueueBackOff: Bool { version >= 0x0202_0000 }

    /// Whether the header has the request for topic ids (`crdkafka_topic_ids`).
    static var tellsTopicIDs: Bool { RD_KAFKA_VERSION >= 0x0203_00ff }

    /// The library's properties and their aliases: the first and the third column of the table that it prints. `range`
    /// has the values as they stand there: `none, gzip, snappy, lz4, zstd`, `0 .. 900000`. Empty for any text.
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
            // Headings and rules have no such names.
            guard columns.count == 4, let name = columns[0].split(separator: " ").first, name.first?.isLowercase == true
            else { return nil }
            return (String(name), columns[2].split(separator: " ").joined(separator: " "))
        }
    }
}

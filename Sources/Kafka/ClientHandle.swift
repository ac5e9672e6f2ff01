internal import CLinux
import CRdkafka
import Glibc

/// A property that librdkafka does not know, or whose value it does not take.
package struct InvalidProperty: Error, Hashable, Sendable, CustomStringConvertible {
    package let property: KafkaProperty
    /// librdkafka's sentence; names the property, or the one that it is an alias of.
    package let text: String

    package var description: String { text }
}

/// The one owner of a `rd_kafka_t`: whoever keeps something of the client (a queue, a topic) keeps the handle, so that
/// it is destroyed last.
@safe final class ClientHandle {
    enum Kind {
        case producer, consumer

        var c: rd_kafka_type_t { self == .producer ? RD_KAFKA_PRODUCER : RD_KAFKA_CONSUMER }
    }

    let raw: OpaquePointer

    /// Makes a client whose log and other events arrive on its main queue.
    init(_ kind: Kind, _ properties: [KafkaProperty], events: Int32) throws(KafkaError) {
        let configuration = unsafe try Self.configuration(properties)
        unsafe rd_kafka_conf_set_events(configuration, events)
        unsafe Self.containDeaths(of: configuration)
        var text = [CChar](repeating: 0, count: 512)
        // On success the client owns the configuration, else it is still ours (rdkafka.h, rd_kafka_new). It is left
        // where it is, some 10 KB: a failure may have freed our interceptors in it, and rd_kafka_conf_destroy would do
        // so again (librdkafka's issue 4142, mended by its pull request 5240).
        guard let raw = unsafe rd_kafka_new(kind.c, configuration, &text, text.count) else {
            let code = KafkaCode(rd_kafka_last_error())
            throw KafkaError(
                code, code == .noResources ? "\(Self.string(text)); \(KafkaCode.roomForThreads)" : Self.string(text))
        }
        unsafe self.raw = raw
    }

    /// Does not leave the group and commits nothing: a consumer that is to leave was closed before. Waits for
    /// librdkafka's threads, a second at most; every queue and topic of the client must be gone.
    deinit { unsafe ClientReaper.destroy(raw) }

    /// Sends the client's log to one of its queues.
    func sendLog(to queue: OpaquePointer) throws(KafkaError) {
        try check(unsafe rd_kafka_set_log_queue(raw, queue))
    }

    /// What made the client unusable; `nil` while nothing did.
    var fatalError: KafkaError? {
        var text = [CChar](repeating: 0, count: 512)
        let code = KafkaCode(unsafe rd_kafka_fatal_error(raw, &text, text.count))
        return code == .none ? nil : KafkaError(code, Self.string(text), isFatal: true)
    }

    /// A configuration that the caller owns.
    private static func configuration(_ properties: [KafkaProperty]) throws(KafkaError) -> OpaquePointer {
        let configuration: OpaquePointer = unsafe rd_kafka_conf_new()
        do {
            for property in properties { unsafe try set(property, in: configuration) }
        } catch {
            unsafe rd_kafka_conf_destroy(configuration)
            throw KafkaError(.invalidArgument, error.text)
        }
        return unsafe configuration
    }

    /// A death on one of librdkafka's threads, which block every signal, is contained as one on ours is.
    private static func containDeaths(of configuration: OpaquePointer) {
        unsafe rd_kafka_conf_interceptor_add_on_new(
            configuration, "crash",
            { client, _, _, _, _ in
                unsafe rd_kafka_interceptor_add_on_thread_start(
                    client, "crash",
                    { _, _, _, _ in
                        crash_thread_begin()
                        return RD_KAFKA_RESP_ERR_NO_ERROR
                    }, nil)
                unsafe rd_kafka_interceptor_add_on_thread_exit(
                    client, "crash",
                    { _, _, _, _ in
                        crash_thread_end()
                        return RD_KAFKA_RESP_ERR_NO_ERROR
                    }, nil)
                return RD_KAFKA_RESP_ERR_NO_ERROR
            }, nil)
    }

    private static func set(_ property: KafkaProperty, in configuration: OpaquePointer) throws(InvalidProperty) {
        var text = [CChar](repeating: 0, count: 512)
        guard
            unsafe rd_kafka_conf_set(configuration, property.name, property.value, &text, text.count)
                != RD_KAFKA_CONF_OK
        else { return }
        var reason = string(text)
        if !reason.contains(property.name) { reason = "\(property.name): \(reason)" }
        throw InvalidProperty(property: property, text: reason)
    }

    /// Throws for the first property that librdkafka refuses.
    static func validate(_ properties: [KafkaProperty]) throws(InvalidProperty) {
        let configuration: OpaquePointer = unsafe rd_kafka_conf_new()
        defer { unsafe rd_kafka_conf_destroy(configuration) }
        for property in properties { unsafe try set(property, in: configuration) }
    }

    static func string(_ buffer: [CChar]) -> String {
        String(decoding: buffer.prefix { $0 != 0 }.lazy.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension KafkaProperties {
    /// Throws for the first property of the user's that the librdkafka that runs does not know, or whose value it does
    /// not take.
    package func validate() throws(InvalidProperty) {
        for list in [common, consumer, producer] { try ClientHandle.validate(list) }
    }
}

extension KafkaLibrary {
    /// A property that the library that runs knows.
    package struct KnownProperty: Sendable {
        package let name: String
        /// The values it takes, as librdkafka's table has them: `none, gzip, snappy, lz4, zstd`, `0 .. 900000`; empty:
        /// any text.
        package let range: String
    }

    /// The library's properties, aliases among them: the first and the third column of the table that it prints.
    package static var knownProperties: [KnownProperty] {
        var text: UnsafeMutablePointer<CChar>?
        var size = 0
        guard let file = unsafe open_memstream(&text, &size) else { return [] }
        unsafe rd_kafka_conf_properties_show(file)
        unsafe fclose(file)
        guard let text = unsafe text else { return [] }
        defer { unsafe free(text) }
        return unsafe String(cString: text).split(separator: "\n").compactMap { row in
            let columns = row.split(separator: "|", maxSplits: 3)
            // The table's own lines have no such names.
            guard columns.count == 4, let name = columns[0].split(separator: " ").first, name.first?.isLowercase == true
            else { return nil }
            return KnownProperty(
                name: String(name), range: columns[2].split(separator: " ").joined(separator: " "))
        }
    }
}

import CRdkafka

/// What any client reports about itself.
package enum ClientEvent: Sendable, Hashable {
    /// librdkafka's log: its severity is syslog's (0 emergency … 7 debug), `facility` its short name for the place.
    case log(severity: Int32, facility: String, text: String)
    /// Brokers cannot be reached, authentication failed and the like: librdkafka goes on trying.
    case error(KafkaError)
    /// The client is of no use any more.
    case fatal(KafkaError)
    /// librdkafka's statistics, a JSON object (librdkafka's manual, "Statistics").
    case statistics(String)
}

/// An event that was taken from a queue and is destroyed with its owner.
@safe struct QueueEvent: ~Copyable {
    let raw: OpaquePointer

    /// The next event of `queue`, waiting at most `timeoutMs`.
    init?(polling queue: OpaquePointer, timeoutMs: Int32) {
        guard let raw = unsafe rd_kafka_queue_poll(queue, timeoutMs) else { return nil }
        unsafe self.raw = raw
    }

    /// The object is destroyed by whoever got it.
    consuming func release() -> OpaquePointer {
        let raw = unsafe raw
        discard self
        return unsafe raw
    }

    deinit { unsafe rd_kafka_event_destroy(raw) }

    var type: Int32 { unsafe rd_kafka_event_type(raw) }

    var code: KafkaCode { KafkaCode(unsafe rd_kafka_event_error(raw)) }

    var error: KafkaError {
        KafkaError(
            code, Self.explained(unsafe rd_kafka_event_error_string(raw).map { unsafe String(cString: $0) } ?? ""),
            isFatal: unsafe rd_kafka_event_error_is_fatal(raw) != 0)
    }

    /// A sentence of librdkafka's; of one that says what to do only to whoever knows it, what is to be done
    /// (rdkafka_broker.c, rd_kafka_broker_handle_SaslHandshake). A broker that says nothing to the first question is
    /// hardly one of before 2016, as it guesses (rd_kafka_broker_handle_ApiVersion).
    static func explained(_ text: String) -> String {
        let text = text.replacing(
            ": probably due to broker version < 0.10 (see api.version.request configuration)", with: "")
        let marks = ["SASL ", " mechanism handshake failed: ", "nsupported SASL mechanism", "supported mechanisms: "]
        var rest = text[...]
        var parts: [Substring] = []
        for mark in marks {
            guard let found = rest.firstRange(of: mark) else { return text }
            parts.append(rest[..<found.lowerBound])
            rest = rest[found.upperBound...]
        }
        let offered = rest.prefix { !$0.isWhitespace }
        return
            "\(parts[0])the broker does not offer the SASL mechanism \(parts[1]): set sasl.mechanism (kafka.librdkafka) "
            + (offered.isEmpty
                ? "to one that it has enabled (sasl.enabled.mechanisms)"
                : "to what it offers: \(offered.split(separator: ",").joined(separator: ", "))")
    }

    /// The event's list, which stays the event's; `nil`: it has none.
    var partitions: UnsafePointer<rd_kafka_topic_partition_list_t>? {
        unsafe UnsafePointer(rd_kafka_event_topic_partition_list(raw))
    }

    /// The event as one that any client has; `nil`: it is of another type.
    func clientEvent(of client: ClientHandle) -> ClientEvent? {
        switch type {
        case RD_KAFKA_EVENT_LOG:
            var facility: UnsafePointer<CChar>?
            var text: UnsafePointer<CChar>?
            var severity: Int32 = 0
            guard unsafe rd_kafka_event_log(raw, &facility, &text, &severity) == 0 else { return nil }
            return .log(
                severity: severity, facility: unsafe facility.map { unsafe String(cString: $0) } ?? "",
                text: unsafe text.map { unsafe String(cString: $0) } ?? "")
        case RD_KAFKA_EVENT_ERROR:
            // A fatal error comes as _FATAL, or as what caused it with a mark (rdkafka_event.c, rd_kafka_event_setup).
            let error = error
            // What is wrong with each broker comes by itself. This one counts those that were named in
            // `bootstrap.servers` and told their own names twice, and comes whenever all connections are down for a
            // moment.
            if error.code == .allBrokersDown {
                return .log(severity: 7, facility: "ALLDOWN", text: "no broker is connected")
            }
            return error.isFatal || error.code == .fatal ? .fatal(client.fatalError ?? error) : .error(error)
        case RD_KAFKA_EVENT_STATS:
            return .statistics(unsafe rd_kafka_event_stats(raw).map { unsafe String(cString: $0) } ?? "")
        default:
            return nil
        }
    }
}

/// The number that a queue writes to a descriptor when it has something: what an eventfd(2) takes.
func enableWakeUps(of queue: OpaquePointer, descriptor: Int32) {
    var one: UInt64 = 1
    // The payload is copied; it must be one that the descriptor takes whole (rdkafka.h).
    unsafe rd_kafka_queue_io_event_enable(queue, descriptor, &one, MemoryLayout<UInt64>.size)
}

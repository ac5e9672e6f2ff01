import CRdkafka

package enum ClientEvent: Sendable, Hashable {
    /// A line of librdkafka's log. `severity` is a syslog level (0 emergency … 7 debug). `facility` is librdkafka's
    /// label for this kind of line, such as `FAIL`.
    case log(severity: Int32, facility: String, text: String)
    /// An error from which librdkafka recovers by itself, such as unreachable brokers or a failed authentication.
    case error(KafkaError)
    /// An error after which the client cannot be used any more.
    case fatal(KafkaError)
    /// librdkafka's statistics as a JSON object (librdkafka's manual, "Statistics").
    case statistics(String)
}

@safe struct QueueEvent: ~Copyable {
    let raw: OpaquePointer

    init?(polling queue: OpaquePointer, timeoutMs: Int32) {
        guard let raw = unsafe rd_kafka_queue_poll(queue, timeoutMs) else { return nil }
        unsafe self.raw = raw
    }

    deinit { unsafe rd_kafka_event_destroy(raw) }

    var type: Int32 { unsafe rd_kafka_event_type(raw) }

    var code: KafkaCode { KafkaCode(unsafe rd_kafka_event_error(raw)) }

    var error: KafkaError { unsafe KafkaError(code, string(rd_kafka_event_error_string(raw))) }

    /// The tag that the caller gave to the request that this event answers.
    var tag: UInt64 { UInt64(UInt(bitPattern: unsafe rd_kafka_event_opaque(raw))) }

    var partitions: UnsafeBufferPointer<rd_kafka_topic_partition_t>? {
        unsafe rd_kafka_event_topic_partition_list(raw)?.elements
    }

    /// Returns a log line, an error or statistics as a `ClientEvent`, or `nil` for other events.
    func clientEvent(of client: ClientHandle) -> ClientEvent? {
        switch type {
        case RD_KAFKA_EVENT_LOG:
            var facility: UnsafePointer<CChar>?
            var text: UnsafePointer<CChar>?
            var severity: Int32 = 0
            guard unsafe rd_kafka_event_log(raw, &facility, &text, &severity) == 0 else { return nil }
            return unsafe .log(severity: severity, facility: string(facility), text: string(text))
        case RD_KAFKA_EVENT_ERROR:
            let error = error
            // Report _ALL_BROKERS_DOWN as a debug log line, because librdkafka also reports each broker's error. The
            // code occurs at every short disconnect, and its text counts a broker twice if the broker's name in
            // `bootstrap.servers` differs from its advertised name.
            if error.code == .allBrokersDown {
                return .log(severity: 7, facility: "ALLDOWN", text: "no broker is connected")
            }
            // A fatal error has either the code _FATAL, or the code of its cause and a flag (rdkafka_event.h,
            // rd_kafka_event_setup).
            let isFatal = unsafe rd_kafka_event_error_is_fatal(raw) != 0 || error.code == .fatal
            return isFatal ? .fatal(client.fatalError ?? error) : .error(error)
        case RD_KAFKA_EVENT_STATS:
            return .statistics(unsafe string(rd_kafka_event_stats(raw)))
        default:
            return nil
        }
    }
}

private func string(_ text: UnsafePointer<CChar>?) -> String { unsafe text.map { unsafe String(cString: $0) } ?? "" }

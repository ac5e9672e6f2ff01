import CRdkafka
import Glibc

/// How many records a topic's partitions have.
final class TopicEnds {
    private let topic: String
    private let partitions: Int
    private let client: RawClient

    init(_ topic: String, partitions: Int, of broker: Broker) throws(BenchFailure) {
        self.topic = topic
        self.partitions = partitions
        client = try RawClient(RD_KAFKA_PRODUCER, broker.bootstrapServers)
    }

    /// Asks the broker about each partition.
    func count() throws(BenchFailure) -> Int {
        var sum = 0
        for partition in 0..<Int32(partitions) {
            var low: Int64 = 0
            var high: Int64 = 0
            let code = rd_kafka_query_watermark_offsets(client.raw, topic, partition, &low, &high, 10_000)
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw BenchFailure("\(topic) cannot be looked at: \(String(cString: rd_kafka_err2str(code)))")
            }
            sum += Int(high - low)
        }
        return sum
    }
}

/// What a result topic holds, read back after the measurement: figures of a run that went wrong mean nothing.
struct ResultBook {
    private var results = 0
    private var accepted = 0
    private var requests: Set<[UInt8]> = []
    private var valueBytes = 0

    var meanValueBytes: Int { results == 0 ? 0 : valueBytes / results }

    /// Reads the topic from its beginning.
    ///
    /// - Throws: unless each request has exactly one result, and that says accepted.
    init(of topic: String, in broker: Broker, _ options: BenchOptions) throws(BenchFailure) {
        let count = try TopicEnds(topic, partitions: options.partitions, of: broker).count()
        let client = try RawClient.reader(of: topic, partitions: options.partitions, broker.bootstrapServers)
        let deadline = Deadline(seconds: 120)
        while results < count {
            guard !deadline.isOver else { throw BenchFailure("\(topic) cannot be read back in time") }
            try Interruption.pause(ms: 0)
            var left = 10_000
            while left > 0, let message = rd_kafka_consumer_poll(client.raw, 100) {
                if message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR { note(message) }
                rd_kafka_message_destroy(message)
                left -= 1
            }
        }
        guard results == options.count, requests.count == options.count, accepted == options.count else {
            throw BenchFailure(
                "\(topic) has \(results) results of \(requests.count) requests, \(accepted) of them accepted; "
                    + "expected \(options.count)")
        }
    }

    private mutating func note(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        results += 1
        valueBytes += message.pointee.len
        var headers: OpaquePointer?
        guard rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        var value: UnsafeRawPointer?
        var size = 0
        if rd_kafka_header_get_last(headers, "outcome", &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR,
            UnsafeRawBufferPointer(start: value, count: size).elementsEqual("accepted".utf8)
        {
            accepted += 1
        }
        if rd_kafka_header_get_last(headers, "request", &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
            requests.insert(Array(UnsafeRawBufferPointer(start: value, count: size)))
        }
    }
}

import CRdkafka
import Glibc

/// What a result topic holds, read back after the measurement: figures of a run that went wrong mean nothing.
///
/// A bit for each notification, so that ten million of them take little.
final class ResultBook {
    private(set) var results = 0
    private(set) var meanValueBytes = 0
    /// `settled_at_ms` less `sent_at_ms`: from the request to its answer.
    private(set) var answerMs = MillisecondCounts()
    /// `sent_at_ms` less `requested_at_ms`: from the record's timestamp to the request.
    private(set) var sendMs = MillisecondCounts()
    /// The least `sent_at_ms`.
    private(set) var firstSentMs = Int64.max
    /// The least `settled_at_ms` after `settledAfterMs`.
    private(set) var firstSettledMs = Int64.max

    private let requests: RequestTopic
    private let settledAfterMs: Int64
    private let requestedFromMs: Int64
    /// By partition, then by offset and index.
    private var seen: [[UInt64]]
    private var accepted = 0
    private var distinct = 0
    private var unknown = 0
    private var valueBytes = 0

    /// Reads the topic from its beginning.
    ///
    /// - Parameters:
    ///   - requestedFromMs: results of requests before it are checked, but do not count for the times.
    ///   - allowsRepeats: a worker was killed on the way.
    /// - Throws: unless each request has exactly one result, and that says accepted.
    init(
        of topic: String, for requests: RequestTopic, in broker: Broker, requestedFromMs: Int64 = 0,
        settledAfterMs: Int64 = 0, allowsRepeats: Bool = false
    ) throws(BenchFailure) {
        self.requests = requests
        self.requestedFromMs = requestedFromMs
        self.settledAfterMs = settledAfterMs
        let records = try TopicEnds(requests.name, partitions: requests.partitions, of: broker).byPartition()
        seen = records.map { [UInt64](repeating: 0, count: ($0 * requests.form.tokensPerRecord + 63) / 64) }
        let count = try TopicEnds(topic, partitions: requests.partitions, of: broker).count()
        let client = try RawClient.reader(of: topic, partitions: requests.partitions, broker.bootstrapServers)
        let deadline = Deadline(seconds: 120 + count / 50_000)
        let batch = UnsafeMutablePointer<UnsafeMutablePointer<rd_kafka_message_t>?>.allocate(capacity: 1_000)
        defer { batch.deallocate() }
        while results < count {
            guard !deadline.isOver else { throw BenchFailure("\(topic) cannot be read back in time") }
            try Interruption.pause(ms: 0)
            for index in 0..<max(0, rd_kafka_consume_batch_queue(client.queue, 100, batch, 1_000)) {
                let message = batch[index]!
                if message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR { note(message) }
                rd_kafka_message_destroy(message)
            }
        }
        meanValueBytes = results == 0 ? 0 : valueBytes / results
        let repeats = allowsRepeats ? results - distinct : 0
        guard distinct == requests.count, unknown == 0, results == requests.count + repeats, accepted == results else {
            throw BenchFailure(
                "\(topic) has \(results) results of \(distinct) requests, \(accepted) of them accepted, \(unknown) of "
                    + "no request; expected one for each of \(requests.count)")
        }
    }

    private func note(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        results += 1
        let text = UnsafeRawBufferPointer(start: message.pointee.payload, count: message.pointee.len)
        valueBytes += text.count
        var headers: OpaquePointer?
        guard rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else {
            unknown += 1
            return
        }
        var value: UnsafeRawPointer?
        var size = 0
        if rd_kafka_header_get_last(headers, "outcome", &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR,
            UnsafeRawBufferPointer(start: value, count: size).elementsEqual("accepted".utf8)
        {
            accepted += 1
        }
        guard rd_kafka_header_get_last(headers, "request", &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR,
            mark(UnsafeRawBufferPointer(start: value, count: size))
        else {
            unknown += 1
            return
        }
        noteTimes(text)
    }

    /// `topic/partition/offset/index`; false: there is no such request.
    private func mark(_ place: UnsafeRawBufferPointer) -> Bool {
        var end = place.count
        func number() -> Int? {
            var value = 0
            var scale = 1
            while end > 0 {
                end -= 1
                let byte = place[end]
                if byte == UInt8(ascii: "/") { return scale > 1 ? value : nil }
                guard (48...57).contains(byte), scale < 1_000_000_000_000_000 else { return nil }
                value += Int(byte - 48) * scale
                scale *= 10
            }
            return nil
        }
        guard let index = number(), let offset = number(), let partition = number(),
            place[..<end].elementsEqual(requests.name.utf8), partition < seen.count,
            index < requests.form.tokensPerRecord
        else { return false }
        let bit = offset * requests.form.tokensPerRecord + index
        guard bit / 64 < seen[partition].count else { return false }
        let mask = UInt64(1) << UInt64(bit % 64)
        if seen[partition][bit / 64] & mask == 0 { distinct += 1 }
        seen[partition][bit / 64] |= mask
        return true
    }

    private func noteTimes(_ value: UnsafeRawBufferPointer) {
        guard let requestedMs = Self.number(after: "\"requested_at_ms\":", in: value),
            let sentMs = Self.number(after: "\"sent_at_ms\":", in: value),
            let settledMs = Self.number(after: "\"settled_at_ms\":", in: value), requestedMs >= requestedFromMs
        else { return }
        answerMs.note(settledMs - sentMs)
        sendMs.note(sentMs - requestedMs)
        firstSentMs = min(firstSentMs, sentMs)
        if settledMs > settledAfterMs { firstSettledMs = min(firstSettledMs, settledMs) }
    }

    /// The digits behind the first occurrence of a text.
    static func number(after name: StaticString, in text: UnsafeRawBufferPointer) -> Int64? {
        guard let base = text.baseAddress else { return nil }
        let size = name.utf8CodeUnitCount
        var at = 0
        while at + size < text.count {
            // A member's quote, then the rest of it.
            guard let quote = memchr(base + at, 0x22, text.count - at) else { return nil }
            at = UnsafeRawPointer(quote) - base
            guard at + size < text.count else { return nil }
            if memcmp(quote, name.utf8Start, size) == 0 {
                var value: Int64 = 0
                var digits = 0
                for byte in text[(at + size)...] {
                    guard (48...57).contains(byte), digits < 18 else { break }
                    value = value * 10 + Int64(byte - 48)
                    digits += 1
                }
                return digits > 0 ? value : nil
            }
            at += 1
        }
        return nil
    }
}

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
    /// What stands in a value before the partition of one of these requests.
    private let place: [UInt8]
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
        place = Array("\"request\":{\"topic\":\"\(requests.name)\",".utf8)
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
        guard mark(text) else {
            unknown += 1
            return
        }
        noteTimes(text)
    }

    /// Notes the request that a result's value names; false: there is no such request.
    private func mark(_ value: UnsafeRawBufferPointer) -> Bool {
        guard let (partition, offset, index) = Self.place(after: place, in: value), partition < seen.count,
            index < requests.form.tokensPerRecord, offset < 1_000_000_000_000
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

    /// The request that a result's value names behind `topic`, `"request":{"topic":"…",`; `nil`: it is of another
    /// topic.
    static func place(
        after topic: [UInt8], in value: UnsafeRawBufferPointer
    ) -> (partition: Int, offset: Int, index: Int)? {
        guard let end = topic.withUnsafeBytes({ end(of: $0, in: value) }) else { return nil }
        let rest = UnsafeRawBufferPointer(rebasing: value[end...])
        guard let partition = number(after: "\"partition\":", in: rest),
            let offset = number(after: "\"offset\":", in: rest), let index = number(after: "\"index\":", in: rest)
        else { return nil }
        return (Int(partition), Int(offset), Int(index))
    }

    /// The digits behind the first occurrence of a text.
    static func number(after name: StaticString, in text: UnsafeRawBufferPointer) -> Int64? {
        let name = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        guard let start = end(of: name, in: text) else { return nil }
        var value: Int64 = 0
        var digits = 0
        for byte in text[start...] {
            guard (48...57).contains(byte), digits < 18 else { break }
            value = value * 10 + Int64(byte - 48)
            digits += 1
        }
        return digits > 0 ? value : nil
    }

    /// Where the first occurrence of what begins with a quote ends, if something follows it.
    private static func end(of name: UnsafeRawBufferPointer, in text: UnsafeRawBufferPointer) -> Int? {
        guard let base = text.baseAddress, let wanted = name.baseAddress else { return nil }
        var at = 0
        while at + name.count < text.count {
            // A member's quote, then the rest of it.
            guard let quote = memchr(base + at, 0x22, text.count - at) else { return nil }
            at = UnsafeRawPointer(quote) - base
            guard at + name.count < text.count else { return nil }
            if memcmp(quote, wanted, name.count) == 0 { return at + name.count }
            at += 1
        }
        return nil
    }
}

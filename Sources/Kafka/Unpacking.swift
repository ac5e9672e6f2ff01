import CRdkafka
import CUnpacking
import Glibc

/// A record batch that cannot be unpacked, as its header says.
package struct UnreadableBatch: Sendable, Hashable {
    /// The offsets that it has, whether each is there or not.
    package var offsets: ClosedRange<Int64>
    /// Milliseconds since the epoch; -1: none.
    package var timestampMs: Int64
    /// What its records take in the log.
    package var size: Int
    /// It would take more memory than a batch may (`Unpacking.limit`); else it is damaged.
    package var isTooLarge: Bool
    /// It came as it was written, and will never be another; else it may have been damaged on its way.
    package var isAsWritten: Bool

    package init(
        _ offsets: ClosedRange<Int64>, timestampMs: Int64 = -1, size: Int, isTooLarge: Bool, isAsWritten: Bool = false
    ) {
        self.offsets = offsets
        self.timestampMs = timestampMs
        self.size = size
        self.isTooLarge = isTooLarge
        self.isAsWritten = isAsWritten
    }
}

/// What is known of a batch that librdkafka could not unpack this time.
package enum BatchFailure: Sendable, Hashable {
    /// As librdkafka names it: its first offset, and what its records take in the log.
    package struct Batch: Sendable, Hashable {
        package var baseOffset: Int64
        package var size: Int

        package init(baseOffset: Int64, size: Int) {
            self.baseOffset = baseOffset
            self.size = size
        }
    }

    /// There was no memory for it (`Unpacking.limit`), or for one alike of another partition.
    case putOff(Batch)
    /// Where it ends is not known (`BatchProbe` can ask): it is damaged, of snappy, which is a part of librdkafka, or
    /// was unpacked where nobody looked (a librdkafka with its decompressors built in, a message of before Kafka 0.11).
    case endUnknown(Batch)
    /// What it may have been, all with the same first offset: several where partitions have batches alike. Never empty.
    case unreadable([UnreadableBatch])
}

/// What librdkafka may unpack (`CUnpacking.h`): of itself it takes whatever a batch asks for.
package enum Unpacking {
    /// What librdkafka takes for each record, besides its bytes (`CUnpacking.h`).
    package static let recordBytes = Int(UNPACKING_RECORD_BYTES)

    /// For the process. Before the first thread is started.
    package static func tuneMalloc() { unpacking_tune_malloc() }

    /// Sets the limits of all consumers; false: they are not in force, as with a librdkafka that has its decompressors
    /// built in.
    ///
    /// - Parameters:
    ///   - batchBytes: of one batch, unpacked, with `recordBytes` for each record.
    ///   - heapBytes: while more is allocated, large batches are put off.
    package static func limit(batchBytes: Int, heapBytes: Int) -> Bool {
        guard let function = unsafe dlsym(nil, "rd_kafka_version") else { return false }
        return unsafe unpacking_limit(batchBytes, heapBytes, function)
    }

    /// Looks at what librdkafka's clients receive from now on: no batch is handed up whose checksum is wrong; of
    /// batches that librdkafka unpacks by itself, or that are not compressed, none whose records are not those of its
    /// header, or which is too large (`limit`, which is to come before). Such ones count as batches that cannot be
    /// unpacked.
    ///
    /// - Parameter protocolName: librdkafka's `security.protocol`; with SSL, connections are seen only where it calls
    ///   another library for that.
    /// - Returns: whether such connections are looked at.
    package static func watch(protocolName: String) -> Bool {
        guard let function = unsafe dlsym(nil, "rd_kafka_version") else { return false }
        let watch = unsafe unpacking_watch_responses(function)
        return protocolName.lowercased().contains("ssl") ? watch.tls : watch.plain
    }

    /// Whether any batch was seen since `watch`. Where records were read and this is false, it sees nothing, as with a
    /// librdkafka that receives in other pieces, or by another version of Fetch, or with batches of a format older than
    /// Kafka 0.11's.
    package static var hasSeenBatches: Bool { unpacking_fetch_count() > 0 }

    /// How often a batch was refused because it is too large.
    package static var tooLargeCount: Int { Int(clamping: unpacking_too_large_count()) }

    /// How often a batch was put off for want of memory.
    package static var putOffCount: Int { Int(clamping: unpacking_put_off_count()) }

    /// How often a batch was unpacked in spite of that, by `grant`.
    package static var grantedCount: Int { Int(clamping: unpacking_granted_count()) }

    /// Lets the batch be unpacked whatever is allocated, once, when librdkafka asks for it again in this time: what its
    /// topic has in reserve.
    package static func grant(_ batch: BatchFailure.Batch, forNs: Int64) {
        unpacking_grant(batch.baseOffset, batch.size, forNs)
    }

    /// Older failures say nothing of one that librdkafka tells of now: it tries again every half second.
    static let failureAgeNs: Int64 = 10_000_000_000

    /// What is known of a batch that could not be unpacked lately: put off, where it may have been one that was.
    static func failure(of batch: BatchFailure.Batch, ageNs: Int64 = failureAgeNs) -> BatchFailure {
        unsafe withUnsafeTemporaryAllocation(of: unpacking_batch.self, capacity: 16) { found in
            var isPutOff = false
            let count = unsafe unpacking_failures(
                batch.baseOffset, batch.size, ageNs, found.baseAddress, found.count, &isPutOff)
            if isPutOff { return .putOff(batch) }
            guard count > 0 else { return .endUnknown(batch) }
            return .unreadable(
                (0..<count).map { index in
                    let batch = unsafe found[index]
                    return UnreadableBatch(
                        batch.base_offset...batch.last_offset, timestampMs: batch.timestamp_ms, size: batch.size,
                        isTooLarge: batch.is_too_large, isAsWritten: batch.is_as_written)
                })
        }
    }

    /// Whether librdkafka's sentence about a batch (as below) is of one that is compressed with snappy, as damaged ones
    /// seem to be.
    static func isSnappy(inText text: String) -> Bool { text.contains("Decompression (codec 0x2)") }

    /// Reads `… of SIZE bytes failed: …` of librdkafka's sentence about a batch (rdkafka_msgset_reader.c,
    /// rd_kafka_msgset_reader_decompress).
    static func size(inText text: String) -> Int? {
        guard let end = text.firstRange(of: " bytes failed: ")?.lowerBound else { return nil }
        return text[..<end].split(separator: " ").last.flatMap { Int($0) }
    }
}

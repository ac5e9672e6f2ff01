internal import Bytes

/// The content of commit metadata: the settled offsets above the committed one, the settled indexes of fan-outs, and
/// the send horizon.
///
/// Layout, in base64url (`CommitMapWriter` writes it):
///
///     version (1 byte) · check (3 bytes) · horizon (varint: 0 for none, else offset - base + 1)
///     set of settled offsets, relative to the committed offset ("base")
///     number of partly settled records (varint), and for each: offset - previous offset (varint), set of indexes
///     owner (varint): distinguishes equal commits of two workers; may be missing
///     a set: leading run of open offsets (varint) · length << 1 | form (varint) · data
///       form 0, runs: `length` runs (varints), alternately settled and open; the first and last are settled
///       form 1, bitmap: `length` bits, lowest bit of a byte first
///
/// The check covers the base and all bytes after the check. Metadata of another offset is therefore rejected.
///
/// Worker versions without the owner number reject the whole metadata. They resend the records that were settled above
/// the committed offset, all marked in doubt. To avoid these repeats, stop all workers before you upgrade them.
package struct CommitMap: Equatable {
    /// A fan-out with settled and open notifications, and the indexes of the settled ones.
    package struct Partial: Equatable {
        package var offset: Int64
        package var indexes: [Range<Int64>]

        package init(offset: Int64, indexes: [Range<Int64>]) {
            self.offset = offset
            self.indexes = indexes
        }
    }

    /// The send horizon: records at or above it cannot have been sent. 0 if no uncommitted record can have been sent.
    package var horizon: Int64
    /// The ranges of settled offsets, in ascending order and disjoint.
    package var settled: [Range<Int64>]
    /// The partly settled records, in ascending order.
    package var partials: [Partial]

    package static let version: UInt8 = 1
    /// The exclusive upper bound of an offset's distance from the committed one. Metadata that exceeds it is rejected.
    static let spanLimit: Int64 = 1 << 40
    /// The maximum distance of the horizon from the committed offset.
    static let longestHorizon = spanLimit - 2
    /// The exclusive upper bound of owner numbers, which have at most three bytes as varints.
    static let ownerLimit: Int64 = 1 << 21
    /// The exclusive upper bound of the notification indexes in a record.
    static let indexLimit: Int64 = 1 << 14

    package init(horizon: Int64 = 0, settled: [Range<Int64>] = [], partials: [Partial] = []) {
        self.horizon = horizon
        self.settled = settled
        self.partials = partials
    }

    /// Creates the map for a recreated or truncated log. All records below both `sent` (the offset that was reached in
    /// the old log) and `logEnd` are in doubt, because it is unknown which of them were sent.
    init(doubtedBelow sent: Int64, logStart: Int64?, logEnd: Int64?) {
        let start = logStart ?? 0
        let end = min(sent, logEnd ?? OffsetLimit.highest, start + Self.longestHorizon)
        self.init(horizon: end > start ? end : 0)
    }

    /// One past the highest offset that is settled or partly settled, or 0 if there is none.
    package var end: Int64 { max(settled.last?.upperBound ?? 0, (partials.last?.offset ?? -1) + 1) }

    /// Whether no offset is settled or partly settled.
    var isEmpty: Bool { settled.isEmpty && partials.isEmpty }

    /// Removes all settled offsets, and raises the horizon above them. Call this for a log that was truncated at an
    /// unknown offset, because different records may now have these offsets, and may have been sent.
    package mutating func doubt() {
        horizon = max(horizon, end)
        settled = []
        partials = []
    }

    /// Returns 24 bits of FNV-1a over the base and the bytes after the check.
    static func check(_ bytes: ArraySlice<UInt8>, base: Int64) -> UInt32 {
        var hash = FNV1a()
        hash.add(UInt64(bitPattern: base))
        bytes.withUnsafeBytes { hash.add($0) }
        return UInt32(truncatingIfNeeded: hash.value ^ hash.value >> 32) & 0xFF_FFFF
    }

    /// Parses the metadata of a commit with the offset `base`. Returns `nil` if the metadata is damaged or no worker
    /// wrote it. The input is untrusted, and the cost is bounded by the input's length.
    package init?(metadata: UnsafeRawBufferPointer, base: Int64) {
        guard OffsetLimit.holds(base), let bytes = Base64.url.decode(metadata), bytes.count >= 4,
            bytes[0] == Self.version
        else {
            return nil
        }
        let check = UInt32(bytes[1]) << 16 | UInt32(bytes[2]) << 8 | UInt32(bytes[3])
        guard check == Self.check(bytes[4...], base: base) else { return nil }

        var reader = VarintReader(bytes: bytes, position: 4)
        guard let end = reader.next(below: Self.spanLimit), let settled = reader.set(below: Self.spanLimit),
            let count = reader.next(below: Int64(bytes.count))
        else { return nil }
        horizon = end == 0 ? 0 : base + end - 1
        self.settled = settled.map { base + $0.lowerBound..<base + $0.upperBound }
        partials = []
        var offset = base
        for _ in 0..<count {
            guard let step = reader.next(below: Self.spanLimit), let indexes = reader.set(below: Self.indexLimit) else {
                return nil
            }
            offset += step
            if !indexes.isEmpty { partials.append(Partial(offset: offset, indexes: indexes)) }
        }
        guard reader.isAtEnd || reader.next(below: Self.ownerLimit) != nil && reader.isAtEnd else { return nil }
    }
}

// The map of the previous owner. Its offsets are removed in ascending order as their records are received.
extension CommitMap {
    /// Returns the settled indexes of the record at `offset`, or `nil` if the whole record is settled. Each call must
    /// pass a higher offset than the previous call. Entries of lower offsets are removed.
    mutating func take(_ offset: Int64) -> [Range<Int64>]? {
        while let run = settled.first, run.upperBound <= offset { settled.removeFirst() }
        while let partial = partials.first, partial.offset < offset { partials.removeFirst() }
        if let run = settled.first, run.lowerBound <= offset { return nil }
        if let partial = partials.first, partial.offset == offset { return partial.indexes }
        return []
    }

    /// Writes all entries at or above `offset` to `writer`, so that the next commit contains them too.
    func write(from offset: Int64, to writer: inout CommitMapWriter) {
        for run in settled where run.upperBound > offset {
            writer.settled(max(run.lowerBound, offset)..<run.upperBound)
        }
        for partial in partials where partial.offset >= offset {
            writer.partial(offset: partial.offset, indexes: partial.indexes)
        }
    }

    /// Returns one past the highest offset, at or above `offset`, that may have been sent and is not settled. `nil` if
    /// there is none.
    func doubtEnd(from offset: Int64) -> Int64? {
        var end = horizon
        for run in settled.reversed() where run.upperBound >= end && run.lowerBound < end { end = run.lowerBound }
        return end > offset ? end : nil
    }
}

/// Parses the data of `CommitMapWriter`. Methods return `nil` for invalid bytes.
private struct VarintReader {
    let bytes: [UInt8]
    var position: Int

    var isAtEnd: Bool { position == bytes.count }

    mutating func next(below limit: Int64) -> Int64? {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while position < bytes.count, shift < 63 {
            let byte = bytes[position]
            position += 1
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value < UInt64(limit) ? Int64(value) : nil }
            shift += 7
        }
        return nil
    }

    mutating func set(below limit: Int64) -> [Range<Int64>]? {
        guard let leading = next(below: limit), let header = next(below: limit * 2) else { return nil }
        return header & 1 == 0
            ? runs(count: header >> 1, from: leading, below: limit)
            : bitmap(length: header >> 1, from: leading, below: limit)
    }

    private mutating func runs(count: Int64, from leading: Int64, below limit: Int64) -> [Range<Int64>]? {
        guard count == 0 || count % 2 == 1, count <= Int64(bytes.count - position) else { return nil }
        var ranges: [Range<Int64>] = []
        var start = leading
        for index in 0..<count {
            guard let length = next(below: limit), length > 0, start + length <= limit else { return nil }
            if index % 2 == 0 { ranges.append(start..<start + length) }
            start += length
        }
        return ranges
    }

    private mutating func bitmap(length: Int64, from leading: Int64, below limit: Int64) -> [Range<Int64>]? {
        let byteCount = (length + 7) / 8
        guard length > 0, byteCount <= Int64(bytes.count - position), leading + length <= limit else { return nil }
        var set = RangeSet<Int64>()
        for bit in 0..<length where bytes[position + Int(bit / 8)] >> UInt8(bit % 8) & 1 == 1 {
            set.insert(contentsOf: leading + bit..<leading + bit + 1)
        }
        position += Int(byteCount)
        return Array(set.ranges)
    }
}

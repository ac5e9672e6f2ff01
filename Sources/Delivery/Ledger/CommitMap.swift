internal import Bytes

/// What commit metadata says: which offsets above the committed one are settled, which of a fan-out's indexes are, and
/// below which offset records may have been sent (the reach).
///
/// Layout, in base64url (`CommitMapWriter` writes it):
///
///     version (1 byte) · check (3 bytes) · reach (varint: 0 none, else reach - base + 1)
///     set of settled offsets, relative to the committed offset ("base")
///     number of records settled in part (varint), and for each: offset - the previous one's (varint), set of indexes
///       an empty set at the last offset below the reach: of that record, only indexes below its leading run are below
///       the reach (who does not know that takes all of them to be)
///     owner (varint): tells what one wrote from what another did, where both say the same; may be missing
///     a set: leading run of what is not settled (varint) · length << 1 | form (varint) · data
///       form 0, runs: `length` runs (varints), settled and not settled in turn, the first and last settled
///       form 1, bitmap: `length` bits, lowest bit of a byte first
///
/// The check covers everything after it and the base, so that metadata written for another offset is not believed.
///
/// A reader of before the owner number rejects the whole of it: it sends again what was settled above the committed
/// offset, all marked in doubt. So stop all workers of a version before it first, or accept marked repeats.
package struct CommitMap: Equatable {
    /// Settled in part: the indexes that are.
    package struct Partial: Equatable {
        package var offset: Int64
        package var indexes: [Range<Int64>]

        package init(offset: Int64, indexes: [Range<Int64>]) {
            self.offset = offset
            self.indexes = indexes
        }
    }

    /// `nil`: no record may have been sent.
    package var reach: Int64?
    /// Of the last record below the reach, only indexes below this may have been sent; `.max`: all.
    package var reachIndexes: Int32
    /// Ascending, disjoint.
    package var settled: [Range<Int64>]
    /// Ascending by offset.
    package var partials: [Partial]

    package var horizonEnd: HorizonEnd { reach.map { HorizonEnd($0, indexes: reachIndexes) } ?? .none }

    package static let version: UInt8 = 1
    /// Nothing further above the committed offset is believed.
    static let spanLimit: Int64 = 1 << 40
    /// How far above the committed offset a reach can be named.
    static let highestReach = spanLimit - 2
    /// Owners are numbers below it, of three bytes at most.
    static let ownerLimit: Int64 = 1 << 21
    /// More indexes than a record can have are not believed.
    static let indexLimit: Int64 = 1 << 14

    /// Who wrote it (`CommitLedger.owner`); `nil`: it does not say.
    private(set) var owner: Int64?

    /// Whoever wrote it: two that say the same are the same.
    package static func == (left: CommitMap, right: CommitMap) -> Bool {
        left.reach == right.reach && left.reachIndexes == right.reachIndexes && left.settled == right.settled
            && left.partials == right.partials
    }

    package init(
        reach: Int64? = nil, reachIndexes: Int32 = .max, settled: [Range<Int64>] = [], partials: [Partial] = []
    ) {
        self.reach = reach
        self.reachIndexes = reachIndexes
        self.settled = settled
        self.partials = partials
    }

    /// One past the highest offset that it names settled, wholly or in part; 0: none.
    package var end: Int64 { max(settled.last?.upperBound ?? 0, (partials.last?.offset ?? -1) + 1) }

    /// Names nothing settled any more: the log was cut since, nobody knows where, and other records have, or will have,
    /// those offsets. All that it named may have been sent.
    package mutating func doubt() {
        if end > reach ?? 0 {
            reach = end
            reachIndexes = .max
        }
        settled = []
        partials = []
    }

    /// 24 bits of FNV-1a over the base and the bytes after the check.
    static func check(_ bytes: ArraySlice<UInt8>, base: Int64) -> UInt32 {
        var hash = FNV1a()
        hash.add(UInt64(bitPattern: base))
        bytes.withUnsafeBytes { hash.add($0) }
        return UInt32(truncatingIfNeeded: hash.value ^ hash.value >> 32) & 0xFF_FFFF
    }

    /// Reads metadata that was committed with the offset `base`; `nil` when it is damaged or somebody else's.
    /// Costs no more than its length allows: any bytes may be given.
    package init?(metadata: UnsafeRawBufferPointer, base: Int64) {
        guard OffsetLimit.holds(base), let bytes = Base64.url.decode(metadata), bytes.count >= 4,
            bytes[0] == Self.version
        else {
            return nil
        }
        let check = UInt32(bytes[1]) << 16 | UInt32(bytes[2]) << 8 | UInt32(bytes[3])
        guard check == Self.check(bytes[4...], base: base) else { return nil }

        var reader = VarintReader(bytes: bytes, position: 4)
        guard let reach = reader.next(below: Self.spanLimit), let settled = reader.set(below: Self.spanLimit),
            let count = reader.next(below: Int64(bytes.count))
        else { return nil }
        self.reach = reach == 0 ? nil : base + reach - 1
        self.settled = settled.map { base + $0.lowerBound..<base + $0.upperBound }
        partials = []
        reachIndexes = .max
        var offset = base
        for _ in 0..<count {
            guard let step = reader.next(below: Self.spanLimit), let indexes = reader.set(below: Self.indexLimit) else {
                return nil
            }
            offset += step
            if !indexes.isEmpty {
                partials.append(Partial(offset: offset, indexes: indexes))
            } else if offset + 1 == self.reach, reader.leading > 0 {
                reachIndexes = Int32(reader.leading)
            }
        }
        if !reader.isAtEnd {
            owner = reader.next(below: Self.ownerLimit)
            guard owner != nil, reader.isAtEnd else { return nil }
        }
    }
}

/// Reads what `CommitMapWriter` wrote; `nil` where the bytes cannot be that.
private struct VarintReader {
    let bytes: [UInt8]
    var position: Int
    /// Of the set that was read last.
    private(set) var leading: Int64 = 0

    init(bytes: [UInt8], position: Int) {
        self.bytes = bytes
        self.position = position
    }

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
        self.leading = leading
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
        var ranges: [Range<Int64>] = []
        var start: Int64?
        for bit in 0..<length {
            let isSettled = bytes[position + Int(bit / 8)] >> UInt8(bit % 8) & 1 == 1
            if isSettled, start == nil { start = leading + bit }
            if !isSettled, let first = start {
                ranges.append(first..<leading + bit)
                start = nil
            }
        }
        if let first = start { ranges.append(first..<leading + length) }
        position += Int(byteCount)
        return ranges
    }
}

internal import Bytes

/// Writes commit metadata (`CommitMap`) into reused buffers. Add the settled offsets above the committed one in
/// ascending order, then call `finish`. Offsets that do not fit are omitted, and so are all offsets after them.
package struct CommitMapWriter {
    /// The maximum size in bytes of a map's fixed parts, in this order: version, check, horizon (below 2^40), leading
    /// run of the set of settled offsets, header of this set, number of partly settled records, and owner. The header
    /// has at most three bytes if the map has fewer than 2^17 bytes.
    static let fixedBytes = 1 + 3 + 6 + 6 + 3 + 2 + 3
    /// The maximum length in characters of a map without settled offsets.
    static let leastCharacters = Base64.characters(bytes: 1 + 3 + 6 + 2 + 1 + 3)
    private static let byteLimit = 1 << 13

    private var base: Int64 = 0
    /// The maximum size in bytes of the settled offsets and indexes.
    private var budget = 0
    /// The added settled offsets as ranges, relative to `base`.
    private var runs: [Range<Int64>] = []
    /// The size in bytes of `runs`, encoded as varints.
    private var runBytes = 0
    private var partialCount: Int64 = 0
    private var lastPartial: Int64 = 0
    private var partialBytes: [UInt8] = []
    private var bytes: [UInt8] = []
    /// Whether an offset did not fit. Further offsets are then omitted.
    package private(set) var isFull = false
    /// The metadata, available after `finish`.
    package private(set) var text: [UInt8] = []

    package init() {}

    /// The used part of the budget, in eighths.
    var eighths: Int {
        isFull ? 8 : min(8, (partialBytes.count + mainSize) * 8 / max(1, budget))
    }

    /// - Parameters:
    ///   - base: The offset to commit.
    ///   - limit: The maximum length of the metadata in characters.
    package mutating func start(base: Int64, limit: Int) {
        self.base = base
        budget = max(0, min(Base64.byteCapacity(characters: limit), Self.byteLimit) - Self.fixedBytes)
        runs.removeAll(keepingCapacity: true)
        runBytes = 0
        partialCount = 0
        lastPartial = base
        partialBytes.removeAll(keepingCapacity: true)
        isFull = false
    }

    /// The size in bytes of the set of settled offsets, as runs or as a bitmap, whichever is smaller.
    private var mainSize: Int {
        guard let first = runs.first, let last = runs.last else { return 0 }
        return min(runBytes, Int(last.upperBound - first.lowerBound + 7) / 8)
    }

    /// Adds settled offsets, which must be above all offsets added before.
    package mutating func settled(_ range: Range<Int64>) {
        var run = range.lowerBound - base..<range.upperBound - base
        precondition(run.lowerBound >= 0, "Settled offsets must not be below the offset to commit")
        var runBytes = self.runBytes
        if let last = runs.last, last.upperBound == run.lowerBound {
            run = last.lowerBound..<run.upperBound
            runBytes -= Self.size(Int64(last.count))
        } else if let last = runs.last {
            runBytes += Self.size(run.lowerBound - last.upperBound)
        }
        runBytes += Self.size(Int64(run.count))
        let bitmapBytes = Int(run.upperBound - (runs.first ?? run).lowerBound + 7) / 8
        // `CommitMap` rejects metadata with offsets that are `spanLimit` or more above the base.
        guard !isFull, run.upperBound < CommitMap.spanLimit,
            partialBytes.count + min(runBytes, bitmapBytes) <= budget
        else {
            isFull = true
            return
        }
        self.runBytes = runBytes
        if runs.last?.lowerBound == run.lowerBound { runs.removeLast() }
        runs.append(run)
    }

    /// Adds the settled indexes of a partly settled record, as bits of `words`, lowest bit first.
    package mutating func partial(offset: Int64, words: UnsafeBufferPointer<UInt64>) {
        var indexes = RangeSet<Int64>()
        for (index, word) in words.enumerated() {
            var rest = word
            while rest != 0 {
                let start = rest.trailingZeroBitCount
                let end = start + (~(rest >> start)).trailingZeroBitCount
                rest &= ~0 << end
                indexes.insert(contentsOf: Int64(index * 64 + start)..<Int64(index * 64 + end))
            }
        }
        partial(offset: offset, indexes: Array(indexes.ranges))
    }

    /// Adds the settled indexes of a partly settled record.
    package mutating func partial(offset: Int64, indexes: [Range<Int64>]) {
        guard !indexes.isEmpty, !isFull else { return }
        let begin = partialBytes.count
        Self.append(offset - lastPartial, to: &partialBytes)
        Self.append(set: indexes, to: &partialBytes)
        guard offset - base < CommitMap.spanLimit, partialBytes.count + mainSize <= budget else {
            partialBytes.removeLast(partialBytes.count - begin)
            isFull = true
            return
        }
        partialCount += 1
        lastPartial = offset
    }

    /// Completes the metadata in `text`.
    ///
    /// - Parameters:
    ///   - horizon: The send horizon. A horizon at or below the base means that no uncommitted record can have been
    ///     sent.
    ///   - owner: A number below `CommitMap.ownerLimit`.
    package mutating func finish(horizon: Int64, owner: Int64 = 0) {
        bytes.removeAll(keepingCapacity: true)
        bytes.append(contentsOf: [0, 0, 0, 0])
        Self.append(horizon > base ? horizon - base + 1 : 0, to: &bytes)
        Self.append(set: runs, to: &bytes)
        Self.append(partialCount, to: &bytes)
        bytes.append(contentsOf: partialBytes)
        Self.append(owner, to: &bytes)
        let check = CommitMap.check(bytes[4...], base: base)
        bytes[0] = CommitMap.version
        bytes[1] = UInt8(check >> 16)
        bytes[2] = UInt8(check >> 8 & 0xFF)
        bytes[3] = UInt8(check & 0xFF)
        text.removeAll(keepingCapacity: true)
        Base64.url.append(bytes, to: &text)
    }

    static func size(_ value: Int64) -> Int { max(1, (70 - value.leadingZeroBitCount) / 7) }

    private static func append(_ value: Int64, to bytes: inout [UInt8]) {
        var rest = UInt64(value)
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    /// Appends a set of offsets as runs or as a bitmap, whichever is shorter.
    private static func append(set runs: [Range<Int64>], to bytes: inout [UInt8]) {
        var end = runs.first?.lowerBound ?? 0
        let start = end
        append(start, to: &bytes)
        let header = bytes.count
        append(Int64(max(0, runs.count * 2 - 1)) << 1, to: &bytes)
        let data = bytes.count
        for run in runs {
            if run.lowerBound > end { append(run.lowerBound - end, to: &bytes) }
            append(Int64(run.count), to: &bytes)
            end = run.upperBound
        }
        let bitmapSize = Int(end - start + 7) / 8
        guard bytes.count - data > bitmapSize else { return }
        bytes.removeLast(bytes.count - header)
        append((end - start) << 1 | 1, to: &bytes)
        let bitmap = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: bitmapSize))
        for offset in runs.joined() { bytes[bitmap + Int(offset - start) / 8] |= 1 << UInt8((offset - start) % 8) }
    }
}

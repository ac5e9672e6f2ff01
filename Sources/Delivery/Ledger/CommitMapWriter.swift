internal import Bytes

/// Writes commit metadata (`CommitMap`) into buffers it reuses: the settled offsets above the committed one in
/// ascending order, then `finish`. What does not fit is cut at the end.
package struct CommitMapWriter {
    private struct Run {
        var start: Int64
        var length: Int64
    }
    private struct PartialBytes {
        var offset: Int64
        /// The bytes of its indexes.
        var set: Range<Int>
    }

    /// Version, check, horizon (below 2^40), the leading run and header of the main set, the number of partials, the
    /// horizon's indexes (offset, run and header), and the owner, at their longest: a header has three bytes at most if
    /// a map has fewer than 2^17 bytes.
    static let fixedBytes = 1 + 3 + 6 + 6 + 3 + 2 + 9 + 3
    /// The length of the longest map that says nothing is settled: of the main set and the number of partials three
    /// bytes are left.
    static let leastCharacters = Base64.characters(bytes: 1 + 3 + 6 + 2 + 1 + 9 + 3)
    private static let byteLimit = 1 << 13

    private var base: Int64 = 0
    private var budget = 0
    private var runs: [Run] = []
    private var runBytes = 0
    private var partials: [PartialBytes] = []
    private var partialBytes: [UInt8] = []
    private var indexRuns: [Run] = []
    private var bytes: [UInt8] = []
    /// Something did not fit, so that nothing more is taken.
    package private(set) var isFull = false
    /// Offsets and indexes that were given and did not fit.
    package private(set) var dropped = 0
    /// The metadata, after `finish`.
    package private(set) var text: [UInt8] = []

    package init() {}

    /// Bytes for what is settled, in metadata of so many characters.
    static func budget(characters: Int) -> Int {
        max(0, min(Base64.byteCapacity(characters: characters), byteLimit) - fixedBytes)
    }

    /// The used part of the budget, in eighths.
    var eighths: Int { isFull ? 8 : min(8, (partialBytes.count + mainSize) * 8 / max(1, budget)) }

    /// - Parameters:
    ///   - base: the offset to be committed.
    ///   - limit: characters of metadata.
    package mutating func start(base: Int64, limit: Int) {
        self.base = base
        budget = Self.budget(characters: limit)
        runs.removeAll(keepingCapacity: true)
        runBytes = 0
        partials.removeAll(keepingCapacity: true)
        partialBytes.removeAll(keepingCapacity: true)
        isFull = false
        dropped = 0
    }

    /// Adds settled offsets, which lie above all that were given before.
    package mutating func settled(_ range: Range<Int64>) {
        let start = range.lowerBound - base
        let length = range.upperBound - range.lowerBound
        // A reader would reject it.
        if start + length >= CommitMap.spanLimit { isFull = true }
        precondition(start >= 0, "an offset below the committed one is settled by being so")
        guard !isFull, length > 0 else {
            dropped += Int(length)
            return
        }
        if let last = runs.last, last.start + last.length == start {
            let grown = Self.size(last.length + length) - Self.size(last.length)
            fit(start: start, length: length, runCost: grown)
        } else {
            let gap = runs.last.map { start - $0.start - $0.length }
            fit(start: start, length: length, runCost: (gap.map(Self.size) ?? 0) + Self.size(length))
        }
    }

    private mutating func fit(start: Int64, length: Int64, runCost: Int) {
        let first = runs.first?.start ?? start
        let room = budget - partialBytes.count
        let bits = start + length - first
        if min(runBytes + runCost, Int((bits + 7) / 8)) <= room {
            append(start: start, length: length, cost: runCost)
            return
        }
        // Keeps as much of it as a bitmap still holds.
        isFull = true
        let fits = max(0, min(length, first + Int64(room) * 8 - start))
        if fits > 0 { append(start: start, length: fits, cost: runCost) }
        dropped += Int(length - fits)
    }

    private mutating func append(start: Int64, length: Int64, cost: Int) {
        runBytes += cost
        if let last = runs.indices.last, runs[last].start + runs[last].length == start {
            runs[last].length += length
        } else {
            runs.append(Run(start: start, length: length))
        }
    }

    /// Adds the settled indexes (bits of `words`, lowest first) of a record of which others are open.
    package mutating func partial(offset: Int64, words: UnsafeBufferPointer<UInt64>) {
        indexRuns.removeAll(keepingCapacity: true)
        for (index, word) in words.enumerated() where word != 0 { collect(word, from: Int64(index) * 64) }
        partial(offset: offset)
    }

    /// Adds the settled indexes of a record that was read back and not received yet.
    package mutating func partial(offset: Int64, indexes: [Range<Int64>]) {
        indexRuns.removeAll(keepingCapacity: true)
        for range in indexes {
            indexRuns.append(Run(start: range.lowerBound, length: range.upperBound - range.lowerBound))
        }
        partial(offset: offset)
    }

    private mutating func collect(_ word: UInt64, from start: Int64) {
        var rest = word
        var shift: Int64 = 0
        while rest != 0 {
            let zeros = Int64(rest.trailingZeroBitCount)
            shift += zeros
            rest >>= UInt64(zeros)
            let ones = Int64((~rest).trailingZeroBitCount)
            if let last = indexRuns.indices.last, indexRuns[last].start + indexRuns[last].length == start + shift {
                indexRuns[last].length += ones
            } else {
                indexRuns.append(Run(start: start + shift, length: ones))
            }
            shift += ones
            rest = ones == 64 ? 0 : rest >> UInt64(ones)
        }
    }

    private mutating func partial(offset: Int64) {
        guard !indexRuns.isEmpty else { return }
        let begin = partialBytes.count
        if !isFull, offset - base < CommitMap.spanLimit {
            Self.append(offset - (partials.last?.offset ?? base), to: &partialBytes)
            let start = partialBytes.count
            Self.append(set: indexRuns, to: &partialBytes)
            if partialBytes.count + mainSize <= budget {
                partials.append(PartialBytes(offset: offset, set: start..<partialBytes.count))
                return
            }
            partialBytes.removeLast(partialBytes.count - begin)
        }
        isFull = true
        dropped += indexRuns.reduce(0) { $0 + Int($1.length) }
    }

    private var mainSize: Int {
        guard let first = runs.first, let last = runs.last else { return 0 }
        return min(runBytes, Int((last.start + last.length - first.start + 7) / 8))
    }

    /// Completes `text`.
    ///
    /// - Parameters:
    ///   - horizon: one at or below the base says that no record can have been sent.
    ///   - owner: below `CommitMap.ownerLimit`.
    package mutating func finish(horizon: HorizonEnd, owner: Int64 = 0) {
        bytes.removeAll(keepingCapacity: true)
        for _ in 0..<4 { bytes.append(0) }
        let isAhead = horizon.offset > base
        Self.append(isAhead ? horizon.offset - base + 1 : 0, to: &bytes)
        Self.append(set: runs, to: &bytes)
        if isAhead, horizon.indexes > 0, Int64(horizon.indexes) < CommitMap.indexLimit {
            appendPartials(below: horizon)
        } else {
            Self.append(Int64(partials.count), to: &bytes)
            bytes.append(contentsOf: partialBytes)
        }
        Self.append(owner, to: &bytes)
        let check = CommitMap.check(bytes[4...], base: base)
        bytes[0] = CommitMap.version
        bytes[1] = UInt8(check >> 16)
        bytes[2] = UInt8(check >> 8 & 0xFF)
        bytes[3] = UInt8(check & 0xFF)
        text.removeAll(keepingCapacity: true)
        Base64.url.append(bytes, to: &text)
    }

    /// Appends the partials, with the horizon's indexes after those that are settled of the same record.
    private mutating func appendPartials(below horizon: HorizonEnd) {
        Self.append(Int64(partials.count + 1), to: &bytes)
        let position = partials.firstIndex { $0.offset >= horizon.offset } ?? partials.count
        var last = base
        for partial in 0...partials.count {
            if partial == position {
                Self.append(horizon.offset - 1 - last, to: &bytes)
                Self.append(Int64(horizon.indexes), to: &bytes)
                Self.append(0, to: &bytes)
                last = horizon.offset - 1
            }
            guard partial < partials.count else { return }
            Self.append(partials[partial].offset - last, to: &bytes)
            bytes.append(contentsOf: partialBytes[partials[partial].set])
            last = partials[partial].offset
        }
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

    /// Appends a set in the shorter form.
    private static func append(set runs: [Run], to bytes: inout [UInt8]) {
        guard let first = runs.first, let last = runs.last else {
            append(0, to: &bytes)
            append(0, to: &bytes)
            return
        }
        append(first.start, to: &bytes)
        let bits = last.start + last.length - first.start
        var runSize = 0
        var end = first.start
        for run in runs {
            runSize += (run.start > end ? size(run.start - end) : 0) + size(run.length)
            end = run.start + run.length
        }
        guard Int64(runSize) <= (bits + 7) / 8 else {
            append(bits << 1 | 1, to: &bytes)
            appendBitmap(runs, from: first.start, bits: bits, to: &bytes)
            return
        }
        append(Int64(runs.count * 2 - 1) << 1, to: &bytes)
        end = first.start
        for run in runs {
            if run.start > end { append(run.start - end, to: &bytes) }
            append(run.length, to: &bytes)
            end = run.start + run.length
        }
    }

    private static func appendBitmap(_ runs: [Run], from start: Int64, bits: Int64, to bytes: inout [UInt8]) {
        let begin = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: Int((bits + 7) / 8)))
        for run in runs {
            for bit in run.start - start..<run.start - start + run.length {
                bytes[begin + Int(bit / 8)] |= 1 << UInt8(bit % 8)
            }
        }
    }
}

import Bytes
import Delivery

func fuzzBase64URL(_ bytes: UnsafeRawBufferPointer) {
    if let decoded = Base64.url.decode(bytes) {
        require(decoded.count == Base64.byteCapacity(characters: bytes.count), "as many bytes as fit")
    }
    var text: [UInt8] = []
    Base64.url.append(Array(bytes), to: &text)
    require(text.withUnsafeBytes { Base64.url.decode($0) } == Array(bytes), "what was written is read back")
}

func fuzzCommitMap(_ bytes: UnsafeRawBufferPointer) {
    var reader = FuzzReader(bytes)
    let base = reader.word()
    let rest = reader.rest()
    if let map = CommitMap(metadata: rest, base: base) { check(map, base: base) }
    // No fuzzer guesses a checksum: here it is computed over the input.
    var sealed = [CommitMap.version, 0, 0, 0] + rest
    let check = fnv24(sealed[4...], base: base)
    sealed[1] = UInt8(check >> 16)
    sealed[2] = UInt8(check >> 8 & 0xFF)
    sealed[3] = UInt8(check & 0xFF)
    var text: [UInt8] = []
    Base64.url.append(sealed, to: &text)
    if let map = text.withUnsafeBytes({ CommitMap(metadata: $0, base: base) }) { Fuzz.check(map, base: base) }
}

/// The checksum of version 1: 24 bits of FNV-1a over the base, lowest byte first, and the bytes.
private func fnv24(_ bytes: ArraySlice<UInt8>, base: Int64) -> UInt32 {
    var hash = FNV1a()
    hash.add(UInt64(bitPattern: base))
    hash.add(bytes)
    return UInt32(truncatingIfNeeded: hash.value ^ hash.value >> 32) & 0xFF_FFFF
}

/// A map that was read is in order, and above the committed offset.
private func check(_ map: CommitMap, base: Int64) {
    var end = base
    for range in map.settled {
        require(range.lowerBound >= end && !range.isEmpty, "settled offsets ascend from the committed one")
        end = range.upperBound
    }
    require(map.horizon == 0 || map.horizon >= base, "a horizon is no lower than the committed offset")
    var last = base
    for partial in map.partials {
        require(partial.offset >= last, "records settled in part ascend")
        last = partial.offset
        var index: Int64 = 0
        for range in partial.indexes {
            require(range.lowerBound >= index && !range.isEmpty, "settled indexes ascend")
            index = range.upperBound
        }
    }
}

func fuzzCommitMapWriter(_ bytes: UnsafeRawBufferPointer) {
    var reader = FuzzReader(bytes)
    let base = reader.boundary(around: 1_000_000) & 0xFF_FFFF_FFFF_FFFF
    let limit = reader.number(below: 256) * 16
    let horizon = reader.byte() & 1 == 0 ? 0 : base + Int64(reader.number(below: 200)) * 50
    var writer = CommitMapWriter()
    writer.start(base: base, limit: limit)
    var given = CommitMap()
    var offset = base + 1
    while !reader.isAtEnd {
        let order = reader.byte()
        offset += Int64(reader.number(below: 64)) * (order & 4 == 0 ? 1 : 4_096)
        if order & 1 == 0 {
            let length = 1 + Int64(reader.number(below: 200)) * (order & 8 == 0 ? 1 : 1_000)
            writer.settled(offset..<offset + length)
            given.settled.add(offset..<offset + length)
            offset += length
        } else {
            var words: [UInt64] = []
            for _ in 0...reader.number(below: 6) { words.append(UInt64(bitPattern: reader.word())) }
            words.withUnsafeBufferPointer { writer.partial(offset: offset, words: $0) }
            let indexes = ranges(of: words)
            if !indexes.isEmpty { given.partials.append(.init(offset: offset, indexes: indexes)) }
            offset += 1
        }
    }
    writer.finish(horizon: horizon)
    if horizon > base { given.horizon = horizon }
    guard let read = writer.text.withUnsafeBytes({ CommitMap(metadata: $0, base: base) }) else {
        fatalError("what the writer wrote is not read")
    }
    check(read, base: base)
    require(read.horizon == given.horizon, "the horizon is read back")
    if !writer.isFull {
        require(read == given, "what was not cut is read back as it was given")
    } else {
        require(given.settled.cover(read.settled), "only given offsets are settled")
        for partial in read.partials {
            guard let whole = given.partials.first(where: { $0.offset == partial.offset }) else {
                fatalError("a record is settled in part that was not given")
            }
            require(whole.indexes.cover(partial.indexes), "only given indexes are settled")
        }
    }
    // A smaller limit has room for the horizon only, which is always written.
    if limit >= 64 { require(writer.text.count <= limit, "the metadata keeps to its limit") }
}

private func ranges(of words: [UInt64]) -> [Range<Int64>] {
    var ranges: [Range<Int64>] = []
    for index in 0..<Int64(words.count * 64) where words[Int(index / 64)] >> UInt64(index % 64) & 1 == 1 {
        ranges.add(index..<index + 1)
    }
    return ranges
}

extension [Range<Int64>] {
    /// Appends a range, joined with the last one if they touch.
    fileprivate mutating func add(_ range: Range<Int64>) {
        if let last, last.upperBound == range.lowerBound {
            self[count - 1] = last.lowerBound..<range.upperBound
        } else {
            append(range)
        }
    }

    /// Whether each of the others is part of one of these.
    fileprivate func cover(_ others: [Range<Int64>]) -> Bool {
        others.allSatisfy { other in contains { $0.lowerBound <= other.lowerBound && $0.upperBound >= other.upperBound }
        }
    }
}

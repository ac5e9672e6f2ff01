import Bytes
import Delivery

func fuzzBase64URL(_ bytes: UnsafeRawBufferPointer) {
    if let decoded = Base64.url.decode(bytes) {
        require(
            decoded.count == Base64.byteCapacity(characters: bytes.count),
            "the decoded bytes must be as many as the characters encode")
    }
    var text: [UInt8] = []
    Base64.url.append(Array(bytes), to: &text)
    require(text.withUnsafeBytes { Base64.url.decode($0) } == Array(bytes), "encoded bytes must decode to themselves")
}

func fuzzCommitMap(_ bytes: UnsafeRawBufferPointer) {
    var reader = FuzzReader(bytes)
    let base = reader.word()
    let rest = reader.rest()
    if let map = CommitMap(metadata: rest, base: base) { check(map, base: base) }
    // A fuzzer cannot guess a checksum, so it is computed over the input: 24 bits of FNV-1a over the base, lowest byte
    // first, and then the bytes.
    var sealed = [CommitMap.version, 0, 0, 0] + rest
    var hash = FNV1a()
    hash.add(UInt64(bitPattern: base))
    hash.add(sealed[4...])
    let check = hash.value ^ hash.value >> 32
    for place in 1...3 { sealed[place] = UInt8(truncatingIfNeeded: check >> UInt64(24 - 8 * place)) }
    var text: [UInt8] = []
    Base64.url.append(sealed, to: &text)
    if let map = text.withUnsafeBytes({ CommitMap(metadata: $0, base: base) }) { Fuzz.check(map, base: base) }
}

/// Checks that a decoded map is in ascending order and above the committed offset.
private func check(_ map: CommitMap, base: Int64) {
    var end = base
    for range in map.settled {
        require(range.lowerBound >= end && !range.isEmpty, "settled offsets must ascend from the committed offset")
        end = range.upperBound
    }
    require(map.horizon == 0 || map.horizon >= base, "the horizon must not be below the committed offset")
    var last = base
    for partial in map.partials {
        require(partial.offset >= last, "partly settled records must ascend")
        last = partial.offset
        var index: Int64 = 0
        for range in partial.indexes {
            require(range.lowerBound >= index && !range.isEmpty, "settled indexes must ascend")
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
        fatalError("the writer's map cannot be read")
    }
    check(read, base: base)
    require(read.horizon == given.horizon, "the horizon must be read back")
    if !writer.isFull {
        require(read == given, "a map that was not truncated must be read back unchanged")
    } else {
        require(given.settled.cover(read.settled), "only offsets passed to the writer may be settled")
        for partial in read.partials {
            guard let whole = given.partials.first(where: { $0.offset == partial.offset }) else {
                fatalError("a partly settled record was not passed to the writer")
            }
            require(whole.indexes.cover(partial.indexes), "only indexes passed to the writer may be settled")
        }
    }
    // A smaller limit may be exceeded, because the horizon is always written.
    if limit >= 64 { require(writer.text.count <= limit, "the metadata must not exceed its limit") }
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

    /// Whether each of the other ranges is part of one of these ranges.
    fileprivate func cover(_ others: [Range<Int64>]) -> Bool {
        others.allSatisfy { other in contains { $0.lowerBound <= other.lowerBound && $0.upperBound >= other.upperBound }
        }
    }
}

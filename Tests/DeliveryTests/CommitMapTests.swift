import Bytes
@testable import Delivery
import Testing

struct CommitMapTests {
    static func text(base: Int64, _ map: CommitMap, limit: Int = 4_000) -> [UInt8] {
        var writer = CommitMapWriter()
        writer.start(base: base, limit: limit)
        var partials = map.partials[...]
        for run in map.settled {
            while let first = partials.first, first.offset < run.lowerBound {
                writer.partial(offset: first.offset, indexes: first.indexes)
                partials.removeFirst()
            }
            writer.settled(run)
        }
        for partial in partials { writer.partial(offset: partial.offset, indexes: partial.indexes) }
        writer.finish(horizon: map.horizon)
        return writer.text
    }

    static func read(_ text: [UInt8], base: Int64) -> CommitMap? {
        text.withUnsafeBytes { CommitMap(metadata: $0, base: base) }
    }

    @Test(
        arguments: [
            CommitMap(),
            CommitMap(horizon: 1_500),
            CommitMap(
                horizon: 1_004, settled: [1_001..<1_003],
                partials: [
                    .init(offset: 1_000, indexes: [0..<5]), .init(offset: 1_003, indexes: [7..<9, 12..<100]),
                    .init(offset: 1_900, indexes: [1..<2]),
                ]),
            CommitMap(horizon: 1_001, settled: [1_001..<1_002]),
            CommitMap(settled: [1_001..<1_000_000_000]),
            CommitMap(settled: [1_001..<1_002, 1_003..<1_004, 1_005..<1_006, 1_007..<1_009, 1_010..<1_011]),
            CommitMap(horizon: 9_999, settled: [1_500..<1_600], partials: [.init(offset: 1_000, indexes: [0..<5_000])]),
            CommitMap(
                settled: [1_001..<1_003],
                partials: [
                    .init(offset: 1_000, indexes: [1..<2, 3..<4, 5..<6, 7..<8, 9..<10, 11..<12]),
                    .init(offset: 1_003, indexes: [9_999..<10_000]),
                ]),
        ])
    func `A map survives encoding and decoding`(_ map: CommitMap) throws {
        let text = Self.text(base: 1_000, map)
        #expect(text.allSatisfy { $0 > 0x20 && $0 < 0x7F })
        #expect(Self.read(text, base: 1_000) == map)
    }

    @Test func `A map without an owner's number can be read`() {
        let map = CommitMap(
            horizon: 9_999, settled: [1_500..<1_600], partials: [.init(offset: 1_000, indexes: [0..<5_000])])
        #expect(Self.read(Array("AQrYxKhG9AMCZAEAAAKIJw".utf8), base: 1_000) == map)
    }

    @Test func `A map without settled offsets fits into the smallest metadata limit`() {
        let map = CommitMap(horizon: CommitMap.longestHorizon)
        for limit in [0, CommitMapWriter.leastCharacters] {
            var writer = CommitMapWriter()
            writer.start(base: 0, limit: limit)
            writer.settled(1..<9)
            writer.finish(horizon: map.horizon, owner: CommitMap.ownerLimit - 1)
            expect(writer.text.count, is: CommitMapWriter.leastCharacters)
            #expect(Self.read(writer.text, base: 0) == map)
        }
    }

    @Test func `Two owners encode the same map differently`() {
        let texts = [0, 5, CommitMap.ownerLimit - 1].map { (owner: Int64) -> [UInt8] in
            var writer = CommitMapWriter()
            writer.start(base: 10, limit: 100)
            writer.settled(12..<14)
            writer.finish(horizon: 20, owner: owner)
            return writer.text
        }
        #expect(Set(texts).count == 3)
        for text in texts { #expect(Self.read(text, base: 10) == CommitMap(horizon: 20, settled: [12..<14])) }
    }

    @Test func `A horizon at or below the committed offset has no effect`() {
        #expect(Self.read(Self.text(base: 10, CommitMap(horizon: 10)), base: 10)?.horizon == 0)
        #expect(Self.read(Self.text(base: 10, CommitMap(horizon: 11)), base: 10)?.horizon == 11)
    }

    @Test(arguments: 0..<5)
    func `A map of 20,000 offsets of which 4,000 random ones are open fits completely`(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var open = Set((0..<20_000).shuffled(using: &random).prefix(4_000).map { Int64($0) })
        open.insert(0)
        let map = CommitMap(horizon: 30_000, settled: runs(of: (0..<20_000).filter { !open.contains($0) }, from: 5))
        let text = Self.text(base: 5, map)
        #expect(text.count <= 3_400)
        #expect(Self.read(text, base: 5) == map)
    }

    @Test(arguments: [32, 64, 200, 1_000, 2_000, 4_000])
    func `A map that is too large is truncated at its end`(_ limit: Int) throws {
        var random = SplitMix64(seed: UInt64(limit))
        let settled = (1..<60_000).filter { _ in Bool.random(using: &random) }.map { Int64($0) }
        let map = CommitMap(horizon: 70_000, settled: runs(of: settled, from: 0))
        let text = Self.text(base: 0, map, limit: limit)
        #expect(text.count <= limit)
        let read = try #require(Self.read(text, base: 0))
        #expect(read.horizon == 70_000)
        let kept = read.settled.reduce(0) { $0 + $1.count }
        #expect(read.settled == runs(of: Array(settled.prefix(kept)), from: 0))
        // A random pattern is encoded as a bitmap, which uses nearly all the space.
        if limit >= 200, let end = read.settled.last?.upperBound { #expect(end > Int64(limit - 64) * 6) }
    }

    @Test func `A fan-out that does not fit is omitted, together with everything after it`() throws {
        let indexes = stride(from: 0, to: 10_000, by: 3).map { Int64($0)..<Int64($0) + 1 }
        let map = CommitMap(partials: (0..<4).map { .init(offset: $0, indexes: indexes) })
        let text = Self.text(base: 0, map)
        let read = try #require(Self.read(text, base: 0))
        #expect(read.partials == Array(map.partials.prefix(2)))
    }

    @Test func `Metadata of another offset, or with any changed, missing or added character, is ignored`() throws {
        let map = CommitMap(
            horizon: 9_999, settled: [1_500..<1_600, 1_700..<1_701], partials: [.init(offset: 1_000, indexes: [0..<77])]
        )
        let text = Self.text(base: 1_000, map)
        #expect(Self.read(text, base: 1_001) == nil)
        #expect(Self.read(text, base: -1) == nil)
        var believed = 0
        for index in text.indices {
            for change: UInt8 in [1, 2, 32, 128] {
                var damaged = text
                damaged[index] ^= change
                if let read = Self.read(damaged, base: 1_000), read != map { believed += 1 }
            }
            #expect(Self.read(Array(text[..<index]), base: 1_000) == nil)
        }
        #expect(believed == 0)
        #expect(Self.read(text + text, base: 1_000) == nil)
    }

    @Test(arguments: [
        "", "x", "NO_METADATA", "{\"a\":1}", "AAAA", "AQAAAA", "bm90IG91cnM=", "\0\0\0\0", "AQAAAAAAAAAA",
    ])
    func `Metadata of other software is ignored`(_ text: String) {
        #expect(Self.read(Array(text.utf8), base: 0) == nil)
    }

    @Test(arguments: 0..<100)
    func `Random maps survive encoding and decoding`(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let base = Int64.random(in: 0...1 << 47, using: &random)
        let openness = Int.random(in: 1...99, using: &random)
        let span = Int64.random(in: 1...3_000, using: &random)
        let settled = (1...span).filter { _ in random.chance(openness) }
        let map = CommitMap(
            horizon: random.chance(50) ? base + .random(in: 1...5_000, using: &random) : 0,
            settled: runs(of: settled, from: base))
        #expect(Self.read(Self.text(base: base, map), base: base) == map, "seed \(seed)")
    }

    private func runs(of offsets: [Int64], from base: Int64) -> [Range<Int64>] {
        var runs: [Range<Int64>] = []
        for offset in offsets {
            if let last = runs.last, last.upperBound == base + offset {
                runs[runs.count - 1] = last.lowerBound..<base + offset + 1
            } else {
                runs.append(base + offset..<base + offset + 1)
            }
        }
        return runs
    }
}

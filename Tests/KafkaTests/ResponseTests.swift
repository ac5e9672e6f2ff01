import Bytes
import CUnpacking
import Foundation
import TestSupport
import Testing

@testable import Kafka

// One after the other with those: the limits are of the process.
extension UnpackingTests {
    /// Batches that librdkafka unpacks by itself, or that are not compressed, are looked at where they come from the
    /// network.
    @Suite(.serialized) struct ResponseTests {
        /// How a batch's records are packed.
        enum Packing: String, CaseIterable, CustomTestStringConvertible {
            case none, framedSnappy, rawSnappy
            var testDescription: String { rawValue }
            var codec: UInt16 { self == .none ? 0 : 2 }

            func pack(_ records: [UInt8]) -> [UInt8] {
                switch self {
                case .none: return records
                case .rawSnappy: return snappy(records[...])
                case .framedSnappy:
                    // In two blocks.
                    let blocks = [records.prefix(records.count / 2), records.dropFirst(records.count / 2)].map {
                        snappy($0)
                    }
                    return [0x82] + Array("SNAPPY\0".utf8) + big(UInt32(1)) + big(UInt32(1))
                        + blocks.flatMap { big(UInt32($0.count)) + $0 }
                }
            }
        }

        /// Literals of at most 60 bytes, and copies of all kinds where what comes was there at once before.
        private static func snappy(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
            var packed: [UInt8] = []
            var size = bytes.count
            while size > 0x7F {
                packed.append(UInt8(size & 0x7F) | 0x80)
                size >>= 7
            }
            packed.append(UInt8(size))
            var at = bytes.startIndex
            var kind = 0
            while at < bytes.endIndex {
                let byte = bytes[at]
                let same = bytes[at...].prefix(11).prefix { $0 == byte }.count
                if at > bytes.startIndex, bytes[at - 1] == byte, same >= 4 {
                    switch kind % 3 {
                    case 0: packed += [UInt8(same - 4) << 2 | 1, 1]
                    case 1: packed += [UInt8(same - 1) << 2 | 2, 1, 0]
                    default: packed += [UInt8(same - 1) << 2 | 3, 1, 0, 0, 0]
                    }
                    kind += 1
                    at += same
                } else {
                    // Its length in a byte of its own, every other time.
                    let length = min(kind % 2 == 0 ? 3 : 7, bytes.endIndex - at)
                    packed += kind % 2 == 0 ? [UInt8(length - 1) << 2] : [60 << 2, UInt8(length - 1)]
                    packed += bytes[at..<(at + length)]
                    kind += 1
                    at += length
                }
            }
            return packed
        }

        private static func snappy(_ bytes: [UInt8]) -> [UInt8] { snappy(bytes[...]) }

        private static func big(_ number: some FixedWidthInteger) -> [UInt8] {
            withUnsafeBytes(of: number.bigEndian) { Array($0) }
        }

        private static func checksum(_ bytes: some Sequence<UInt8>) -> UInt32 {
            var crc = UInt32.max
            for byte in bytes { crc = crc >> 8 ^ table[Int(UInt8(truncatingIfNeeded: crc) ^ byte)] }
            return ~crc
        }

        /// CRC-32C's.
        private static let table: [UInt32] = (0..<256).map { byte in
            (0..<8).reduce(UInt32(byte)) { crc, _ in crc >> 1 ^ (crc & 1 == 1 ? 0x82F6_3B78 : 0) }
        }

        /// A batch as it stands in the log.
        private static func batch(
            _ packing: Packing, _ records: [UInt8], count: UInt32, lastDelta: UInt32, base: Int64 = 0,
            attributes: UInt16 = 0
        ) -> [UInt8] {
            let time = Int64(1_700_000_000_000)
            let body =
                big(packing.codec | attributes) + big(lastDelta) + big(time) + big(time) + big(Int64(-1))
                + big(Int16(-1))
                + big(Int32(-1)) + big(count) + packing.pack(records)
            let rest = big(Int32(-1)) + [2] + big(checksum(body)) + body
            return big(base) + big(UInt32(rest.count)) + rest
        }

        private static func good(_ packing: Packing, base: Int64 = 0) -> [UInt8] {
            let records = UnpackingTests.record(0, value: 40) + UnpackingTests.record(1, value: 300)
            return batch(packing, records, count: 2, lastDelta: 1, base: base)
        }

        private static func odd(_ packing: Packing, base: Int64 = 0) -> [UInt8] {
            let records = UnpackingTests.record(0, value: 30) + UnpackingTests.record(1_000, value: 30)
            return batch(packing, records, count: 2, lastDelta: 1, base: base)
        }

        /// A response to Fetch, behind the number of its request, with a topic of two partitions.
        ///
        /// - Parameters:
        ///   - end: behind their last offset.
        ///   - start: their first.
        private static func response(
            version: Int, _ sets: [[UInt8]], end: Int64 = 1 << 62, start: Int64 = 0
        ) -> [UInt8] {
            let isCompact = version >= 12
            func count(_ number: Int, bytes: Int = 4) -> [UInt8] {
                if !isCompact { return bytes == 2 ? big(UInt16(number)) : big(UInt32(number)) }
                var rest = number + 1
                var bytes: [UInt8] = []
                while rest > 0x7F {
                    bytes.append(UInt8(rest & 0x7F) | 0x80)
                    rest >>= 7
                }
                return bytes + [UInt8(rest)]
            }
            let tags: [UInt8] = isCompact ? [0] : []
            var bytes = tags + big(Int32(0))
            if version >= 7 { bytes += big(Int16(0)) + big(Int32(77)) }
            bytes += count(1)
            bytes += version >= 13 ? [UInt8](repeating: 0xAB, count: 16) : count(6, bytes: 2) + Array("topics".utf8)
            bytes += count(sets.count)
            for (index, set) in sets.enumerated() {
                bytes += big(Int32(index)) + big(Int16(0)) + big(end) + big(end)
                if version >= 5 { bytes += big(start) }
                bytes += count(index) + Array(repeating: big(Int64(5)) + big(Int64(6)) + tags, count: index).joined()
                if version >= 11 { bytes += big(Int32(-1)) }
                // The leader (tag 1), as brokers tell it.
                bytes += count(set.count) + set + (isCompact && index == 0 ? [1, 1, 3, 2, 2, 0] : tags)
            }
            return bytes + tags + tags
        }

        private static func limit(batchBytes: Int = 8 << 20) -> UnsafeRawPointer {
            let function: @convention(c) () -> Void = {}
            let caller = unsafeBitCast(function, to: UnsafeRawPointer.self)
            _ = unpacking_limit(batchBytes, 1 << 40, caller)
            return caller
        }

        /// Of version 11: partitions with these first offsets and ends, the last of them with a batch that is its log's
        /// last.
        private static func response(logs: [(start: Int64, end: Int64)]) -> [UInt8] {
            var bytes = big(Int32(0)) + big(Int16(0)) + big(Int32(0)) + big(UInt32(1))
            bytes += big(UInt16(3)) + Array("abc".utf8) + big(UInt32(logs.count))
            for (index, log) in logs.enumerated() {
                bytes += big(Int32(index)) + big(Int16(0)) + big(log.end) + big(log.end) + big(log.start)
                bytes += big(UInt32(0)) + big(Int32(-1))
                let set = index == logs.count - 1 ? good(.none, base: log.end - 2) : []
                bytes += big(UInt32(set.count)) + set
            }
            return bytes
        }

        private static func checked(_ response: [UInt8], batchBytes: Int = 8 << 20) -> [UInt8] {
            let caller = limit(batchBytes: batchBytes)
            defer { _ = limit() }
            var response = response
            unpacking_check_response(&response, response.count, caller)
            return response
        }

        /// What became of batches that stand one behind the other.
        private static func checked(
            batch: [UInt8], batchBytes: Int = 8 << 20, end: Int64 = 1 << 62, start: Int64 = 0
        ) -> [UInt8] {
            let response = checked(
                response(version: 11, [batch], end: end, start: start), batchBytes: batchBytes)
            return Array(response.suffix(batch.count))
        }

        /// Whether librdkafka unpacks a batch that was looked at; where not, what is known of it then.
        private static func failure(_ batch: [UInt8], base: Int64) -> [UnreadableBatch]? {
            guard batch[22] & 7 == 1 else { return [] }
            // Also where librdkafka unpacks gzip without a word to us.
            #expect(UnpackingTests.known(batch, base: base)?.count == 1)
            #expect(checksum(batch[21...]) == batch[17..<21].reduce(0) { $0 << 8 | UInt32($1) })
            let unpacked = batch.withUnsafeBytes {
                UnpackingTests.unpackGzip(UnsafeRawBufferPointer(rebasing: $0[61...]))
            }
            #expect(unpacked == nil)
            return UnpackingTests.known(batch, base: base)
        }

        @Test(arguments: Packing.allCases, [4, 5, 7, 11, 12, 13]) func onlyOddBatchesBecomeOnesThatCannotBeUnpacked(
            packing: Packing, version: Int
        ) {
            let base = 1 << 52 + 10 * Int64(version)
            let cut = Self.good(packing, base: base + 4).dropLast(9)
            let sets = [
                Self.good(packing) + Self.odd(packing, base: base) + Self.good(.none, base: base + 2),
                Self.good(packing) + cut,
            ]
            var none = Self.response(version: version, [[], []])
            #expect(!unpacking_check_response(&none, none.count, Self.limit()))
            var response = Self.response(version: version, [[], Self.good(packing)])
            #expect(unpacking_check_response(&response, response.count, Self.limit()))
            response = Self.response(version: version, sets)
            let checked = Self.checked(response)
            let odd = Self.odd(packing, base: base)
            let at = response.firstRange(of: odd)!
            #expect(Array(checked[..<at.lowerBound]) == Array(response[..<at.lowerBound]))
            #expect(Array(checked[at.upperBound...]) == Array(response[at.upperBound...]))
            let expected = UnreadableBatch(
                base...(base + 1), timestampMs: 1_700_000_000_000, size: odd.count - 61, isTooLarge: false,
                isAsWritten: true)
            #expect(Self.failure(Array(checked[at]), base: base) == [expected])
        }

        @Test(arguments: Packing.allCases, UnpackingTests.Oddity.allCases) func oneWhoseRecordsAreOddIsDamaged(
            packing: Packing, oddity: UnpackingTests.Oddity
        ) {
            // Of its own: what is known of a batch is known by its first offset and its size.
            let base =
                1 << 53 + 100 * Int64(UnpackingTests.Oddity.allCases.firstIndex(of: oddity) ?? 0)
                + Int64(Packing.allCases.firstIndex(of: packing) ?? 0)
            let batch = Self.checked(batch: Self.batch(packing, oddity.records, count: 2, lastDelta: 1, base: base))
            #expect(Self.failure(batch, base: base)?.map(\.isTooLarge) == [false])
        }

        /// As compaction leaves them, and as needless bytes of a number that are no harm have it.
        @Test(arguments: Packing.allCases) func whatIsUnusualButWholeIsLeftAsItIs(packing: Packing) {
            let gaps = UnpackingTests.record(3, value: 5) + UnpackingTests.record(9, value: 5)
            let long: [UInt8] = [0x8E, 0x80, 0x00, 0, 0, 0, 1, 2, 0, 0]
            for batch in [
                Self.batch(packing, gaps, count: 2, lastDelta: 12),
                Self.batch(packing, long, count: 1, lastDelta: 0),
                Self.batch(.none, [], count: 0, lastDelta: 4),
                // A transaction's end is no record.
                Self.batch(.none, [0x10, 0, 0, 0, 8, 0, 0, 0, 1, 0], count: 1, lastDelta: 0, attributes: 32 | 16),
            ] { #expect(Self.checked(batch: batch) == batch) }
        }

        /// A batch of gzip that was damaged where it begins may be whole the next time.
        @Test func whatWasDamagedOnItsWayMayBeWholeTheNextTime() {
            _ = Self.limit()
            let base: Int64 = 1 << 55
            var batch = Self.batch(.none, [0x1F, 0x8B, 8, 0, 0, 0], count: 1, lastDelta: 0, base: base, attributes: 1)
            batch[61] = 0
            let unpacked = batch.withUnsafeBytes {
                UnpackingTests.unpackGzip(UnsafeRawBufferPointer(rebasing: $0[61...]))
            }
            #expect(unpacked == nil)
            let known = UnpackingTests.known(batch, base: base)
            #expect(known == [UnreadableBatch(base...base, timestampMs: 1_700_000_000_000, size: 6, isTooLarge: false)])
        }

        /// Other codecs are looked at when they are unpacked.
        @Test(arguments: [1, 3, 4]) func whatIsNotToBeJudgedIsLeftAsItIs(codec: UInt8) {
            let batch = Self.batch(.none, [1, 2, 3], count: 1, lastDelta: 0, attributes: UInt16(codec))
            #expect(Self.checked(batch: batch) == batch)
        }

        @Test(arguments: Packing.allCases) func whatIsTooLargeIsKnownAsSuch(packing: Packing) {
            let base: Int64 = 1 << 54
            let value = Self.batch(
                packing, UnpackingTests.record(0, value: 70_000), count: 1, lastDelta: 0, base: base)
            let small = (0..<300).flatMap { UnpackingTests.record($0, value: 1) }
            let many = Self.batch(packing, small, count: 300, lastDelta: 299, base: base + 1)
            for (batch, base) in [(value, base), (many, base + 1)] {
                #expect(Self.checked(batch: batch, batchBytes: 128 << 10) == batch)
                let refused = Self.checked(batch: batch, batchBytes: 64 << 10)
                #expect(Self.failure(refused, base: base)?.map(\.isTooLarge) == [true])
            }
        }

        /// Whatever comes, nothing is read or written outside of it.
        @Test(arguments: Packing.allCases, [4, 7, 11, 12, 13]) func anythingIsLookedAtWithoutHarm(
            packing: Packing, version: Int
        ) {
            let caller = Self.limit()
            // What is refused is known from then on: at no offsets of other tests.
            let base: Int64 = 0x0101_0101_0101_0101
            let whole = Self.response(
                version: version,
                [Self.good(packing, base: base) + Self.odd(packing, base: base + 2), Self.good(packing, base: base)])
            let room = (whole.count + 4_095) & ~4_095
            let pages = mmap(nil, room + 4_096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)!
            defer { munmap(pages, room + 4_096) }
            #expect(mprotect(pages + room, 4_096, PROT_NONE) == 0)
            var random = SystemRandomNumberGenerator()
            for round in 0..<1_000 {
                var bytes = whole
                for _ in 0..<(round % 4) {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] =
                        [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &random)! ^ UInt8(round % 2)
                }
                if round % 3 == 0 { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random)) }
                let start = (pages + room - bytes.count).assumingMemoryBound(to: UInt8.self)
                start.update(from: bytes, count: bytes.count)
                unpacking_check_response(start, bytes.count, caller)
                // Nor without an envelope, of which little changed is left whole.
                let batch = Self.response(version: 11, [Self.batch(packing, bytes, count: 2, lastDelta: 1, base: base)])
                guard round % 10 == 0, batch.count <= room else { continue }
                (pages + room - batch.count).assumingMemoryBound(to: UInt8.self).update(from: batch, count: batch.count)
                unpacking_check_response(
                    (pages + room - batch.count).assumingMemoryBound(to: UInt8.self), batch.count, caller)
            }
        }

        // MARK: Damage

        /// With four partitions, say, of which the last has its first records, the numbers of version 11 are lengths of
        /// version 7, by which a good batch stands above its log's end.
        @Test func aGoodBatchIsLeftAloneWhateverOtherVersionsItsResponseLooksLike() {
            var random = SplitMix64(seed: 11)
            for count in 1...12 {
                for _ in 0..<400 {
                    let logs = (0..<count).map { index in
                        let start: Int64 = random.next() % 3 == 0 ? Int64(random.next() % 200) : 0
                        let records = index == count - 1 ? 2 + random.next() % 3 : random.next() % 6
                        return (start: start, end: start + Int64(records))
                    }
                    let response = Self.response(logs: logs)
                    #expect(Self.checked(response) == response, "\(logs)")
                }
            }
        }

        /// Small batches of every kind, of two records.
        private static func small(base: Int64) -> [(name: String, batch: [UInt8])] {
            let records = UnpackingTests.record(0, value: 20) + UnpackingTests.record(1, value: 30)
            let marker: [UInt8] = [0x10, 0, 0, 0, 8, 0, 0, 0, 1, 0]
            return Packing.allCases.map {
                ("\($0)", batch($0, records, count: 2, lastDelta: 1, base: base))
            }
                + UnpackingTests.Codec.allCases.map {
                    let packed = UnpackingTests.packed($0, records)
                    return ("\($0)", batch(.none, packed, count: 2, lastDelta: 1, base: base, attributes: $0.number))
                }
                + [
                    ("end of a transaction", batch(.none, marker, count: 1, lastDelta: 0, base: base, attributes: 48)),
                    ("nothing", batch(.none, [], count: 0, lastDelta: 1, base: base)),
                    ("one byte", batch(.none, [0], count: 1, lastDelta: 1, base: base, attributes: 1)),
                ]
        }

        /// Where a batch is said to begin of which that is not known.
        private static let nowhere = Int64.max - Int64(Int32.max)

        /// Whether librdkafka goes no further than to this batch: snappy that it cannot unpack, and that ends behind
        /// all that may be asked for.
        private static func isRefused(_ batch: [UInt8], base: Int64) -> Bool {
            batch[..<8] == big(base)[...] && batch[8..<12] == big(UInt32(batch.count - 12))[...] && batch[16] == 2
                && batch[17..<21] == big(checksum(batch[21...]))[...] && batch[21..<23] == [0, 2]
                && batch[23..<27] == big(Int32.max)[...] && batch[61...].prefix(5).allSatisfy { $0 == 0xFF }
        }

        /// Each bit that the checksum covers, and its own, of every codec: librdkafka looks at none of them
        /// (`check.crcs`), and would send what is there to whom it is said to be for.
        @Test func noFlippedBitOfABatchIsBelieved() {
            let base: Int64 = 1 << 40
            for (name, batch) in Self.small(base: base) {
                #expect(Self.checked(batch: batch, end: base + 2) == batch, "\(name)")
                for bit in (8 * 17)..<(8 * batch.count) {
                    var flipped = batch
                    flipped[bit / 8] ^= 1 << UInt8(bit % 8)
                    let refused = Self.checked(batch: flipped, end: base + 2)
                    guard Self.isRefused(refused, base: base), Self.checked(batch: refused, end: base + 2) == refused
                    else {
                        Issue.record("\(name), bit \(bit) is believed")
                        return
                    }
                }
            }
        }

        /// Whatever it says to be: nothing in it is to be believed.
        @Test(arguments: Packing.allCases) func whatIsOddWithAWrongChecksumMayBeWholeTheNextTime(packing: Packing) {
            var odd = Self.odd(packing, base: 5)
            odd[17] ^= 1
            var large = Self.batch(packing, UnpackingTests.record(0, value: 70_000), count: 1, lastDelta: 0, base: 5)
            large[17] ^= 1
            for batch in [odd, large] {
                let before = Unpacking.tooLargeCount
                let refused = Self.checked(batch: batch, batchBytes: 64 << 10, end: 20)
                #expect(Self.isRefused(refused, base: 5))
                #expect(UnpackingTests.known(refused, base: 5) == [])
                #expect(Unpacking.tooLargeCount == before)
            }
        }

        /// What is before it is read, and what is behind it is neither read nor looked at: its length may be wrong.
        @Test func nothingElseOfItsPartitionChanges() {
            var damaged = Self.good(.none, base: 7)
            damaged[100] ^= 4
            var behind = Self.good(.none, base: 9)
            behind[100] ^= 4
            let first = Self.good(.none, base: 5)
            let checked = Self.checked(batch: first + damaged + behind, end: 11)
            #expect(Array(checked[..<first.count]) == first)
            #expect(Self.isRefused(Array(checked[first.count..<(first.count + damaged.count)]), base: 7))
            #expect(Array(checked[(first.count + damaged.count)...]) == behind)
        }

        /// No checksum covers a batch's first offset: it is held against the log's ends and the batches beside it.
        @Test(arguments: 0..<64) func aFirstOffsetThatCannotBeIsNotBelieved(bit: Int) {
            let bases: [Int64] = [1 << 40, 1 << 40 + 2, 1 << 40 + 4]
            let end = bases[2] + 2
            let whole = bases.map { Self.good(.none, base: $0) }
            let size = whole[0].count
            #expect(Self.checked(batch: Array(whole.joined()), end: end, start: bases[0]) == Array(whole.joined()))
            for index in 0..<3 {
                var batches = whole
                let base = bases[index] ^ (1 << Int64(bit))
                batches[index].replaceSubrange(..<8, with: Self.big(base))
                let checked = Self.checked(batch: Array(batches.joined()), end: end, start: bases[0])
                let refused = (0..<3).first {
                    Self.isRefused(Array(checked[($0 * size)..<(($0 + 1) * size)]), base: Self.nowhere)
                }
                // Itself, or the one before it, which it overlaps.
                let isSeen = refused == index || (index > 0 && refused == index - 1)
                // Inside of the log's last batch, where that is of two offsets.
                #expect(isSeen || (index == 2 && base == end - 1), "batch \(index) at \(base)")
            }
        }

        /// The log's end is that of before the records were read.
        @Test func whatWasWrittenMeanwhileIsRead() {
            let batches = Self.good(.none, base: 5) + Self.good(.none, base: 7) + Self.good(.none, base: 9)
            for end in Int64(5)...11 { #expect(Self.checked(batch: batches, end: end) == batches) }
            #expect(Self.checked(batch: batches, end: 4) != batches)
            #expect(Self.checked(batch: batches, end: -1) == batches)
            // With something missing in between.
            let gap = Self.good(.none, base: 5) + Self.good(.none, base: 8)
            #expect(Self.checked(batch: gap, end: 10) == gap)
            #expect(Self.checked(batch: gap, end: 7) != gap)
        }

        /// Nor does it cover the length: of another length the checksum is another, or the batch is cut.
        @Test(arguments: 0..<32) func aWrongLengthIsNotBelieved(bit: Int) {
            let good = Self.good(.none, base: 5)
            var batch = good
            batch[8 + bit / 8] ^= 0x80 >> UInt8(bit % 8)
            let bytes = batch + Self.good(.none, base: 7)
            let length = batch[8..<12].reduce(0) { $0 << 8 | Int($1) }
            let checked = Self.checked(batch: bytes, end: 9)
            if length < 49 || length + 12 > bytes.count {
                // librdkafka fails at it, or takes it for one that is cut.
                #expect(checked == bytes)
            } else {
                #expect(Self.isRefused(Array(checked[..<(length + 12)]), base: 5))
            }
        }

        /// Nor the version, by which librdkafka reads the batch as something else, or passes over its first record.
        @Test(arguments: 0..<8) func aWrongVersionIsNotBelieved(bit: Int) {
            for (name, batch) in Self.small(base: 5) {
                var batch = batch
                batch[16] ^= 1 << UInt8(bit)
                #expect(Self.isRefused(Self.checked(batch: batch, end: 7), base: 5), "\(name)")
                // One that is cut is passed over by its version alone.
                let cut = Array(batch.dropLast())
                let checked = Self.checked(batch: cut, end: 7)
                #expect(checked.count == cut.count && checked[16] <= 2 && checked[..<16] == cut[..<16])
            }
        }

        /// As Kafka had them before 0.11, with a CRC-32.
        @Test func anOlderMessageIsReadWhereItIsIntact() {
            // Of version 1, with no key and the value "hello".
            let body: [UInt8] =
                [1, 0] + Self.big(Int64(1_700_000_000_000)) + Self.big(Int32(-1)) + Self.big(Int32(5))
                + Array("hello".utf8)
            let whole =
                Self.big(Int64(5)) + Self.big(UInt32(body.count + 4)) + Self.big(UnpackingTests.zip(body)) + body
            let response = whole + Self.good(.none, base: 6)
            #expect(Self.checked(batch: response, end: 8) == response)
            for bit in (8 * 12)..<(8 * whole.count) {
                var flipped = whole
                flipped[bit / 8] ^= 1 << UInt8(bit % 8)
                // It has no room for a batch: all that is left becomes one, or it is cut.
                let refused = Self.checked(batch: flipped + Self.good(.none, base: 6), end: 8)
                #expect(Self.isRefused(refused, base: 5), "bit \(bit)")
                let alone = Self.checked(batch: flipped, end: 6)
                #expect(alone[8..<12] == Self.big(Int32.max)[...] && alone[16] == 2, "bit \(bit)")
            }
        }

        // MARK: librdkafka

        @Test func `What librdkafka receives is looked at`() throws {
            #expect(Unpacking.watch(protocolName: "plaintext"))
            #expect(Unpacking.watch(protocolName: "SASL_SSL"))
            let before = unpacking_fetch_count()
            let cluster = try Cluster(.mock)
            let writer = try Writer(cluster.servers)
            // In many pieces.
            try writer.fill(cluster.topic, (0..<300).map { "\($0) " + String(repeating: "x", count: 5_000) })
            let member = try cluster.member()
            try member.run("records") { member.records.count == 300 }
            #expect(unpacking_fetch_count() > before)
            #expect(Unpacking.hasSeenBatches)
            try member.close()
        }

        /// zlib receives nothing.
        @Test func aLibraryThatDoesNotReceiveIsLeftAlone() {
            let watch = unpacking_watch_responses(dlsym(nil, "zlibVersion"))
            #expect(!watch.plain && !watch.tls)
        }
    }
}

import CUnpacking
import Foundation
import Testing

@testable import Kafka

/// Limits to what a batch unpacks to, with this program in librdkafka's place.
@Suite(.serialized) struct UnpackingTests {
    enum Codec: String, CaseIterable, CustomTestStringConvertible {
        case gzip, lz4, zstd
        var number: UInt16 {
            switch self {
            case .gzip: 1
            case .lz4: 3
            case .zstd: 4
            }
        }
        var testDescription: String { rawValue }
    }

    private static let batchBytes = 8 << 20

    /// From now on calls from here are limited as librdkafka's are.
    private static func limit(heapBytes: Int = 1 << 40) {
        let function: @convention(c) () -> Void = {}
        _ = unpacking_limit(batchBytes, heapBytes, unsafeBitCast(function, to: UnsafeRawPointer.self))
    }

    /// A function of a library that came with librdkafka.
    private static func find<Function>(_ name: String, as type: Function.Type) -> Function {
        unsafeBitCast(dlsym(nil, name)!, to: type)
    }

    /// zlib's z_stream.
    private struct Stream {
        var start = unpacking_stream()
        var rest = (0, 0, 0, 0, 0, 0, 0, 0, 0)
    }

    /// Kafka's varint.
    static func number(_ value: Int) -> [UInt8] {
        var rest = UInt64(bitPattern: Int64(value << 1 ^ value >> 63))
        var bytes: [UInt8] = []
        while rest > 0x7F {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    /// A record without a key, whose value is so many zeros.
    static func record(_ delta: Int, value: Int) -> [UInt8] {
        let head = [0, 0] + number(delta) + number(-1) + number(value)
        return number(head.count + value + 1) + head + [UInt8](repeating: 0, count: value + 1)
    }

    /// So many records, together so many bytes, or more where they take more.
    private static func records(_ count: UInt32, bytes: Int = 0) -> [UInt8] {
        var records = (0..<Int(count) - 1).flatMap { record($0, value: 0) }
        let left = bytes - records.count
        var value = max(0, left - 20)
        while value < left, record(Int(count) - 1, value: value).count < left { value += 1 }
        records += record(Int(count) - 1, value: value)
        return records
    }

    /// A record batch of so many bytes of records, from its first byte, as it stands in the log.
    ///
    /// - Parameter isSized: whether a frame of lz4 says how large it is.
    private static func batch(
        _ codec: Codec, bytes: Int, base: Int64 = 0, lastDelta: UInt32 = 0, records: UInt32 = 1, isSized: Bool = true
    ) -> [UInt8] {
        batch(
            codec, of: Self.records(records, bytes: bytes), base: base, lastDelta: max(lastDelta, records - 1),
            records: records, isSized: isSized)
    }

    private static func batch(
        _ codec: Codec, of zeros: [UInt8], base: Int64, lastDelta: UInt32 = 0, records: UInt32 = 1, isSized: Bool = true
    ) -> [UInt8] {
        let packed = packed(codec, zeros, isSized: isSized)
        return header(codec, size: packed.count, base: base, lastDelta: lastDelta, records: records) + packed
    }

    static func packed(_ codec: Codec, _ zeros: [UInt8], isSized: Bool = true) -> [UInt8] {
        let bytes = zeros.count
        var packed = [UInt8](repeating: 0, count: bytes + 4_096)
        let room = packed.count
        switch codec {
        case .zstd:
            typealias Compress = @convention(c) (UnsafeMutableRawPointer, Int, UnsafeRawPointer, Int, Int32) -> Int
            packed.removeLast(room - find("ZSTD_compress", as: Compress.self)(&packed, room, zeros, bytes, 1))
        case .lz4:
            typealias Compress =
                @convention(c) (UnsafeMutableRawPointer, Int, UnsafeRawPointer, Int, UnsafeMutableRawPointer) -> Int
            // LZ4F_preferences_t.
            var preferences: [UInt64] = [0, 0, isSized ? 1 : 0, 0, 0, 0, 0]
            packed.removeLast(
                room - find("LZ4F_compressFrame", as: Compress.self)(&packed, room, zeros, bytes, &preferences))
        case .gzip:
            typealias Begin =
                @convention(c) (
                    UnsafeMutableRawPointer, Int32, Int32, Int32, Int32, Int32, UnsafePointer<CChar>, Int32
                ) -> Int32
            typealias Deflate = @convention(c) (UnsafeMutableRawPointer, Int32) -> Int32
            typealias End = @convention(c) (UnsafeMutableRawPointer) -> Int32
            var stream = Stream()
            var left = 0
            zeros.withUnsafeBufferPointer { zeros in
                packed.withUnsafeMutableBufferPointer { packed in
                    _ = find("deflateInit2_", as: Begin.self)(&stream, 6, 8, 31, 8, 0, "1.2.11", 112)
                    stream.start.next_in = zeros.baseAddress
                    stream.start.avail_in = UInt32(zeros.count)
                    stream.start.next_out = packed.baseAddress
                    stream.start.avail_out = UInt32(packed.count)
                    _ = find("deflate", as: Deflate.self)(&stream, 4)
                    left = Int(stream.start.avail_out)
                    _ = find("deflateEnd", as: End.self)(&stream)
                }
            }
            packed.removeLast(left)
        }
        return packed
    }

    private static func header(
        _ codec: Codec, size: Int, base: Int64, lastDelta: UInt32 = 0, records: UInt32 = 1
    ) -> [UInt8] {
        var header: [UInt8] = []
        func add(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number.bigEndian) { header += $0 } }
        add(base)
        add(UInt32(size + 49))
        add(UInt32.max)
        add(UInt8(2))
        add(UInt32(0))
        add(codec.number)
        add(lastDelta)
        add(Int64(1_700_000_000_000))
        add(Int64(1_700_000_000_000))
        add(Int64(-1))
        add(Int16(-1))
        add(Int32(-1))
        add(records)
        return header
    }

    /// zlib's crc32.
    static func zip(_ bytes: [UInt8]) -> UInt32 {
        typealias Checksum = @convention(c) (UInt, UnsafePointer<UInt8>, UInt32) -> UInt
        return UInt32(find("crc32", as: Checksum.self)(0, bytes, UInt32(bytes.count)))
    }

    /// Unpacks the records of a batch as librdkafka does (rdkafka_zstd.c, rdkafka_lz4.c, rdgz.c); returns how many
    /// bytes that were, `nil`: it was refused.
    ///
    /// - Parameter isSized: false: as where a frame of zstd does not say how large it is.
    private static func unpack(_ batch: [UInt8], _ codec: Codec, isSized: Bool = true) -> Int? {
        batch.withUnsafeBufferPointer { batch in
            let records = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(batch)[61...])
            switch codec {
            case .zstd: return unpackZstd(records, isSized: isSized)
            case .lz4: return unpackLZ4(records)
            case .gzip: return unpackGzip(records)
            }
        }
    }

    private static func unpackZstd(_ records: UnsafeRawBufferPointer, isSized: Bool) -> Int? {
        var capacity = records.count * 2
        if isSized {
            let content = ZSTD_getFrameContentSize(records.baseAddress!, records.count)
            guard content < 100_000_000 else { return nil }
            capacity = Int(content)
        }
        while capacity <= 100_000_000 {
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 1)
            defer { buffer.deallocate() }
            let result = ZSTD_decompress(buffer.baseAddress!, capacity, records.baseAddress!, records.count)
            // An error is a negative number; 70: the buffer is too small.
            if result >= 0 { return result }
            guard result == -70 else { return nil }
            capacity += max(capacity * 2, 4_000)
        }
        return nil
    }

    private static func unpackLZ4(_ records: UnsafeRawBufferPointer) -> Int? {
        typealias Free = @convention(c) (UnsafeMutableRawPointer?) -> Int
        var context: UnsafeMutableRawPointer?
        #expect(LZ4F_createDecompressionContext(&context, 100) == 0)
        defer { _ = find("LZ4F_freeDecompressionContext", as: Free.self)(context) }
        var info = (0, 0, 0, 0, 0, 0, 0, 0)
        var taken = records.count
        if LZ4F_getFrameInfo(context, &info, records.baseAddress!, &taken) < 0 { return nil }
        let isKnown = info.2 > 0 && info.2 <= records.count * 255
        var buffer = [UInt8](repeating: 0, count: isKnown ? info.2 : records.count * 4)
        var done = 0
        while taken < records.count {
            var room = buffer.count - done
            var size = records.count - taken
            let result = buffer.withUnsafeMutableBytes { buffer in
                LZ4F_decompress(context, buffer.baseAddress! + done, &room, records.baseAddress! + taken, &size, nil)
            }
            if result < 0 { return nil }
            done += room
            taken += size
            if result == 0 { break }
            if done == buffer.count { buffer += [UInt8](repeating: 0, count: max(buffer.count * 3 / 4, 1_024)) }
        }
        return done
    }

    /// - Parameter hasMemory: false: zlib gets what it needs to begin with, and no more.
    static func unpackGzip(_ records: UnsafeRawBufferPointer, hasMemory: Bool = true) -> Int? {
        // Once to count, in a small buffer, and once into one that is large enough.
        guard let count = inflate(records, to: 512, hasMemory: hasMemory) else { return nil }
        return inflate(records, to: count)
    }

    private static func inflate(_ records: UnsafeRawBufferPointer, to size: Int, hasMemory: Bool = true) -> Int? {
        typealias Begin = @convention(c) (UnsafeMutableRawPointer, Int32, UnsafePointer<CChar>, Int32) -> Int32
        typealias End = @convention(c) (UnsafeMutableRawPointer) -> Int32
        typealias Allocate = @convention(c) (Int, UInt32, UInt32) -> UnsafeMutableRawPointer?
        typealias Release = @convention(c) (Int, UnsafeMutableRawPointer?) -> Void
        var stream = Stream()
        let once: Allocate = { _, count, size in count == 1 ? calloc(Int(count), Int(size)) : nil }
        let release: Release = { _, block in free(block) }
        // zalloc and zfree: the state is one object, the window is many bytes.
        if !hasMemory {
            stream.rest.2 = unsafeBitCast(once, to: Int.self)
            stream.rest.3 = unsafeBitCast(release, to: Int.self)
        }
        guard find("inflateInit2_", as: Begin.self)(&stream, 47, "1.2.11", 112) == 0 else { return nil }
        defer { _ = find("inflateEnd", as: End.self)(&stream) }
        stream.start.next_in = records.baseAddress!.assumingMemoryBound(to: UInt8.self)
        stream.start.avail_in = UInt32(records.count)
        var buffer = [UInt8](repeating: 0, count: size)
        var result: Int32 = 0
        repeat {
            buffer.withUnsafeMutableBufferPointer { buffer in
                stream.start.next_out = buffer.baseAddress
                stream.start.avail_out = UInt32(buffer.count)
                result = withUnsafeMutablePointer(to: &stream) { stream in
                    stream.withMemoryRebound(to: unpacking_stream.self, capacity: 1) { CUnpacking.inflate($0, 0) }
                }
            }
            // 2: it needs a dictionary.
            if result < 0 || result == 2 { return nil }
        } while stream.start.avail_out == 0 && result != 1
        return Int(stream.start.total_out)
    }

    /// What is known of a batch that could not be unpacked; `nil`: it was put off.
    static func known(_ batch: [UInt8], base: Int64, ageNs: Int64 = Unpacking.failureAgeNs) -> [UnreadableBatch]? {
        let name = BatchFailure.Batch(baseOffset: base, size: batch.count - 61)
        let known: [UnreadableBatch]
        switch Unpacking.failure(of: name, ageNs: ageNs) {
        case .unreadable(let batches): known = batches
        case .endUnknown: known = []
        case .putOff: return nil
        }
        return known
    }

    @Test(arguments: Codec.allCases) func aBatchWithinTheLimitIsUnpacked(codec: Codec) {
        Self.limit()
        for bytes in [100, 100_000, Self.batchBytes - 1_000] {
            for isSized in [true, false] {
                let batch = Self.batch(codec, bytes: bytes, isSized: isSized)
                #expect(Self.unpack(batch, codec, isSized: isSized) == bytes)
                #expect(Self.known(batch, base: 0) == [])
            }
        }
    }

    @Test(arguments: Codec.allCases, [true, false]) func aLargerOneIsRefusedAndItsPlaceIsKnown(
        codec: Codec, isSized: Bool
    ) {
        Self.limit()
        let before = Unpacking.tooLargeCount
        let batch = Self.batch(codec, bytes: Self.batchBytes + 1_000, base: 1 << 40, lastDelta: 99, isSized: isSized)
        #expect(Self.unpack(batch, codec, isSized: isSized) == nil)
        #expect(Unpacking.tooLargeCount > before)
        let found = Self.known(batch, base: 1 << 40)
        let timestamp: Int64 = 1_700_000_000_000
        let expected = UnreadableBatch(
            (1 << 40)...((1 << 40) + 99), timestampMs: timestamp, size: batch.count - 61, isTooLarge: true)
        #expect(found == [expected])
    }

    /// librdkafka goes no further with what says to be larger than it may receive.
    @Test func oneThatLibrdkafkaDoesNotEvenTryIsKnown() {
        Self.limit()
        let batch = Self.batch(.zstd, bytes: 101_000_000, base: 1 << 43)
        #expect(Self.unpack(batch, .zstd) == nil)
        #expect(Self.known(batch, base: 1 << 43)?.map(\.isTooLarge) == [true])
    }

    /// Each record costs librdkafka more than its bytes.
    @Test(arguments: Codec.allCases) func manySmallRecordsCountAsWhatTheyTake(codec: Codec) {
        Self.limit()
        let most = UInt32(Self.batchBytes / 320)
        #expect(
            Self.unpack(Self.batch(codec, bytes: 0, records: most - 1_000), codec) == Self.records(most - 1_000).count)
        #expect(Self.unpack(Self.batch(codec, bytes: 1_000, base: 7, records: most), codec) == nil)
    }

    @Test(arguments: Codec.allCases) func aDamagedOneIsKnownAsSuch(codec: Codec) {
        Self.limit()
        var batch = Self.batch(codec, bytes: 100_000, base: 1 << 41, lastDelta: 4)
        for index in (batch.count - 30)..<(batch.count - 8) { batch[index] = 0xAA }
        #expect(Self.unpack(batch, codec) == nil)
        let found = Self.known(batch, base: 1 << 41)
        let expected = UnreadableBatch(
            (1 << 41)...((1 << 41) + 4), timestampMs: 1_700_000_000_000, size: batch.count - 61, isTooLarge: false)
        #expect(found == [expected])
    }

    /// Of anything but the records that its header tells of, librdkafka makes other records than Java, or stops, or
    /// ends the process.
    enum Oddity: String, CaseIterable, CustomTestStringConvertible {
        case oneMissing, oneMore, cutRecord, twice, backwards, beyondTheLast, longLength, longDelta, longKey, longerKey
        var testDescription: String { rawValue }

        var records: [UInt8] {
            let first = UnpackingTests.record(0, value: 3)
            // A length, attributes, a time, an offset, a key, a value of one byte, and no headers.
            func odd(_ delta: [UInt8] = [2], key: [UInt8] = [1]) -> [UInt8] {
                let body = [0, 0] + delta + key + [2, 0, 0]
                return UnpackingTests.number(body.count) + body
            }
            switch self {
            case .oneMissing: return first
            case .oneMore: return first + UnpackingTests.record(1, value: 1) + UnpackingTests.record(2, value: 1)
            case .cutRecord: return first + UnpackingTests.record(1, value: 9).dropLast()
            case .twice: return first + first
            case .backwards: return UnpackingTests.record(1, value: 3) + first
            case .beyondTheLast: return first + UnpackingTests.record(7, value: 1)
            case .longLength: return first + [0x8E, 0x80, 0x80, 0x80, 0x10] + odd().dropFirst()
            // 2^31 and more: one number to Java, another to librdkafka.
            case .longDelta: return first + odd([0x82, 0x80, 0x80, 0x80, 0x10])
            case .longKey: return first + odd(key: [0x81, 0x80, 0x80, 0x80, 0x10])
            case .longerKey: return first + odd(key: [40])
            }
        }
    }

    @Test(arguments: Codec.allCases, Oddity.allCases) func oneWhoseRecordsAreOddIsDamaged(codec: Codec, oddity: Oddity)
    {
        Self.limit()
        let batch = Self.batch(codec, of: oddity.records, base: 1 << 46, lastDelta: 1, records: 2)
        #expect(Self.unpack(batch, codec) == nil)
        #expect(Self.known(batch, base: 1 << 46)?.map(\.isTooLarge) == [false])
    }

    /// As compaction leaves them.
    @Test(arguments: Codec.allCases) func oneWithGapsIsWhole(codec: Codec) {
        Self.limit()
        let records = Self.record(3, value: 5) + Self.record(9, value: 5)
        let batch = Self.batch(codec, of: records, base: 1 << 47, lastDelta: 12, records: 2)
        #expect(Self.unpack(batch, codec) == records.count)
    }

    /// Java reads all members of a gzip file, librdkafka the first, and stops at an assertion where that is empty; of
    /// lz4 it stops where something is behind the frame.
    @Test(arguments: [Codec.gzip, .lz4], [[UInt8](), record(0, value: 3)]) func whatIsBehindTheEndIsDamage(
        codec: Codec, first: [UInt8]
    ) {
        Self.limit()
        let bytes = Self.packed(codec, first) + Self.packed(codec, Self.record(first.isEmpty ? 0 : 1, value: 3))
        let batch =
            Self.header(codec, size: bytes.count, base: 1 << 48, lastDelta: 1, records: first.isEmpty ? 1 : 2) + bytes
        #expect(Self.unpack(batch, codec) == nil)
        #expect(Self.known(batch, base: 1 << 48)?.count == 1)
    }

    @Test(arguments: Codec.allCases) func aLargeOneWaitsForMemoryAndIsPutOff(codec: Codec) {
        let before = Unpacking.putOffCount
        // Nothing fits.
        Self.limit(heapBytes: 0)
        let batch = Self.batch(codec, bytes: 6_000_000, base: 1 << 42)
        #expect(Self.unpack(batch, codec) == nil)
        #expect(Unpacking.putOffCount > before)
        #expect(Self.known(batch, base: 1 << 42) == nil)
        // A small one goes on, now and then.
        let small = Self.batch(codec, bytes: 10_000)
        let deadline = ContinuousClock.now + .seconds(10)
        while Self.unpack(small, codec) == nil, .now < deadline { usleep(1_000) }
        #expect(.now < deadline)
        Self.limit()
        #expect(Self.unpack(batch, codec) == 6_000_000)
    }

    @Test(arguments: Codec.allCases, [true, false]) func aGrantLetsOneBatchThroughOnce(codec: Codec, isSized: Bool) {
        Self.limit(heapBytes: 0)
        defer { Self.limit() }
        // Another one for each: what is let through may ask again.
        let base: Int64 = (1 << 50) + (isSized ? 1 : 0)
        let batch = Self.batch(codec, bytes: 6_000_000, base: base, isSized: isSized)
        let other = Self.batch(codec, bytes: 6_000_000, base: 1 << 51, isSized: isSized)
        let name = BatchFailure.Batch(baseOffset: base, size: batch.count - 61)
        #expect(Self.unpack(batch, codec, isSized: isSized) == nil)
        #expect(Unpacking.failure(of: name) == .putOff(name))
        let before = Unpacking.grantedCount
        Unpacking.grant(name, forNs: 10_000_000_000)
        #expect(Self.unpack(other, codec, isSized: isSized) == nil)
        #expect(Self.unpack(batch, codec, isSized: isSized) == 6_000_000)
        #expect(Unpacking.grantedCount == before + 1)
        // It stands elsewhere when it is asked for again.
        defer { withExtendedLifetime(batch) {} }
        let again = [0] + batch
        #expect(Self.unpack(Array(again.dropFirst()), codec, isSized: isSized) == nil)
        Unpacking.grant(name, forNs: 0)
        #expect(Self.unpack(Array(again.dropFirst()), codec, isSized: isSized) == nil)
    }

    /// Memory or not, it can never be unpacked.
    @Test(arguments: Codec.allCases) func whatIsTooLargeIsNotPutOff(codec: Codec) {
        Self.limit(heapBytes: 0)
        let before = Unpacking.putOffCount
        let most = UInt32(Self.batchBytes / 320)
        var batches = [Self.batch(codec, bytes: 1_000, base: 1 << 44, records: most + 1)]
        // Of gzip only what it unpacks to tells.
        if codec != .gzip { batches.append(Self.batch(codec, bytes: Self.batchBytes + 1_000, base: 1 << 44)) }
        for batch in batches {
            #expect(Self.unpack(batch, codec) == nil)
            let found = Self.known(batch, base: 1 << 44)
            #expect(found?.map(\.isTooLarge) == [true])
        }
        #expect(Unpacking.putOffCount == before)
        Self.limit()
    }

    /// librdkafka takes what an lz4 frame says to be large before it unpacks anything.
    @Test func anLZ4FrameIsJudgedByItsSizeBeforeItTakesMemory() {
        Self.limit(heapBytes: 0)
        let batch = Self.batch(.lz4, bytes: 6_000_000, base: 1 << 45)
        var context: UnsafeMutableRawPointer?
        #expect(LZ4F_createDecompressionContext(&context, 100) == 0)
        typealias Free = @convention(c) (UnsafeMutableRawPointer?) -> Int
        defer { _ = Self.find("LZ4F_freeDecompressionContext", as: Free.self)(context) }
        var info = (0, 0, 0, 0, 0, 0, 0, 0)
        var taken = batch.count - 61
        let before = Unpacking.putOffCount
        batch.withUnsafeBytes { #expect(LZ4F_getFrameInfo(context, &info, $0.baseAddress! + 61, &taken) == -9) }
        #expect(Unpacking.putOffCount == before + 1)
        Self.limit()
    }

    @Test func anLZ4FrameWithADamagedHeaderIsKnown() {
        Self.limit()
        var batch = Self.batch(.lz4, bytes: 1_000, base: 1 << 46)
        batch[61 + 4] ^= 0xFF
        #expect(Self.unpack(batch, .lz4) == nil)
        #expect(Self.known(batch, base: 1 << 46)?.map(\.isTooLarge) == [false])
    }

    @Test func aStreamThatNeedsADictionaryIsDamaged() {
        Self.limit()
        let stream: [UInt8] = [0x78, 0xBB, 1, 2, 3, 4, 5, 6, 7, 8]
        let batch = Self.header(.gzip, size: stream.count, base: 1 << 47) + stream
        #expect(Self.unpack(batch, .gzip) == nil)
        #expect(Self.known(batch, base: 1 << 47)?.map(\.isTooLarge) == [false])
    }

    @Test func aDecompressorWithoutMemorySaysNothingOfTheBatch() {
        Self.limit()
        let batch = Self.batch(.gzip, bytes: 100_000, base: 1 << 48)
        let unpacked = batch.withUnsafeBytes {
            Self.unpackGzip(UnsafeRawBufferPointer(rebasing: $0[61...]), hasMemory: false)
        }
        #expect(unpacked == nil)
        #expect(Self.known(batch, base: 1 << 48) == [])
        #expect(Self.unpack(batch, .gzip) == 100_000)
    }

    /// Partitions may have batches alike: what is said of one that was put off is not to be taken for the other's.
    @Test(arguments: Codec.allCases) func nothingIsKnownWhileOneAlikeIsPutOff(codec: Codec) {
        Self.limit()
        let whole = Self.batch(codec, bytes: 6_000_000, base: 1 << 49)
        var bad = whole
        // Its checksum, and its records.
        bad[17] = 1
        for index in (bad.count - 30)..<(bad.count - 8) { bad[index] = 0xAA }
        #expect(Self.unpack(bad, codec) == nil)
        #expect(Self.known(whole, base: 1 << 49)?.count == 1)
        #expect(Self.known(whole, base: 1 << 49, ageNs: 0) == [])
        Self.limit(heapBytes: 0)
        #expect(Self.unpack(whole, codec) == nil)
        #expect(Self.known(whole, base: 1 << 49) == nil)
        Self.limit()
        #expect(Self.unpack(whole, codec) == 6_000_000)
        #expect(Self.unpack(bad, codec) == nil)
        #expect(Self.known(whole, base: 1 << 49) == nil)
    }

    /// Nothing can be read before the records of a batch that begins its page.
    @Test func whatHasNoHeaderBeforeItIsUnpacked() {
        Self.limit()
        let batch = Self.batch(.zstd, bytes: 1_000)
        let pages = mmap(nil, 8_192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)!
        defer { munmap(pages, 8_192) }
        #expect(mprotect(pages + 4_096, 4_096, PROT_READ | PROT_WRITE) == 0)
        let records = UnsafeMutableRawBufferPointer(start: pages + 4_096, count: batch.count - 61)
        records.copyBytes(from: batch[61...])
        #expect(Self.unpackZstd(UnsafeRawBufferPointer(records), isSized: false) == 1_000)
    }

    @Test func theFunctionsAreInForceForLibrdkafka() {
        #expect(Unpacking.limit(batchBytes: 32 << 20, heapBytes: 1 << 30))
    }

    /// zlib stands for a librdkafka that has its decompressors built in.
    @Test func theyAreNotForALibraryThatDoesNotCallThemByName() {
        #expect(unpacking_is_reached(dlsym(nil, "rd_kafka_version")))
        #expect(!unpacking_is_reached(dlsym(nil, "zlibVersion")))
    }

    @Test func theSizeIsReadFromLibrdkafkasSentence() {
        #expect(
            Unpacking.size(
                inText: "Decompression (codec 0x4) of message at 5 of 3070 bytes failed: Local: Invalid compressed data"
            )
                == 3_070)
        #expect(
            Unpacking.size(
                inText: "Decompression (codec 0x4) of MessageSet at offsets 5-9 of 33 bytes failed: Local: Bad") == 33)
        #expect(Unpacking.size(inText: "Fetch failed") == nil)
    }

    @Test(arguments: [0x1, 0x2, 0x3, 0x4, 0x20, 0x12]) func snappyIsKnownByItsCodec(number: Int) {
        let codec = String(number, radix: 16)
        let text = "Decompression (codec 0x\(codec)) of message at 2 of 30 bytes failed: Local: Invalid compressed data"
        #expect(Unpacking.isSnappy(inText: text) == (number == 2))
    }
}

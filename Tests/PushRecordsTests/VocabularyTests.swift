import Foundation
import TestSupport
import Testing

@testable import PushRecords

@Suite struct VocabularyTests {
    @Test func `A UUID is parsed and formatted`() throws {
        let text = "123e4567-e89b-12d3-a456-4266554400a0"
        let id = try #require(NotificationUUID(text: text))
        #expect(id.high == 0x123E_4567_E89B_12D3 && id.low == 0xA456_4266_5544_00A0)
        #expect(id.description == text)
        #expect(NotificationUUID(text: text.uppercased()) == id)
        for wrong in [
            "", "123e4567-e89b-12d3-a456-4266554400a", text + "0", "123e4567e-89b-12d3-a456-4266554400a0",
            "{23e4567-e89b-12d3-a456-4266554400a0", "123e4567-e89b-12d3-a456_4266554400a0",
        ] {
            #expect(NotificationUUID(text: wrong) == nil)
        }
        for _ in 0..<2_000 {
            let uuid = UUID()
            let id = try #require(NotificationUUID(text: uuid.uuidString))
            #expect(id.description == uuid.uuidString.lowercased())
        }
    }

    @Test func `A derived id encodes the request's position`() throws {
        let id = DerivedID.make(topicHash: 0xFE_DCBA_9876, partition: 0x8_1234, offset: 0x1234_5678_9ABC, index: 0x2AB5)
        // offset 48 | version 8, index's upper 12 | variant 10, index's lower 2, partition 20, hash 40
        #expect(id.description == "12345678-9abc-8aad-9812-34fedcba9876")
        #expect(
            DerivedID.decode(id)
                == .init(offset: 0x1234_5678_9ABC, index: 0x2AB5, partition: 0x8_1234, topicHash: 0xFE_DCBA_9876))
        for (offset, index, partition) in [
            (0, 0, 0), (1, 9_999, 1), (1 << 48 - 1, 1 << 14 - 1, 1 << 20 - 1), (987_654_321, 3, 199),
        ] as [(Int64, Int32, Int32)] {
            let hash = DerivedID.topicHash(lend("apns.requests"))
            let id = DerivedID.make(topicHash: hash, partition: partition, offset: offset, index: index)
            let uuid = try #require(UUID(uuidString: id.description))
            #expect(uuid.uuid.6 >> 4 == 8 && uuid.uuid.8 >> 6 == 0b10)
            #expect(DerivedID.decode(id) == .init(offset: offset, index: index, partition: partition, topicHash: hash))
        }
        #expect(DerivedID.decode(NotificationUUID(text: "123e4567-e89b-12d3-a456-4266554400a0")!) == nil)
        #expect(DerivedID.decode(.none) == nil)
    }

    @Test func `A topic's hash is a folded FNV-1a`() {
        // The 64-bit FNV-1a hash, computed independently and folded to 40 bits.
        func fold(_ text: String) -> UInt64 {
            let hash = text.utf8.reduce(14_695_981_039_346_656_037 as UInt64) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
            return (hash >> 40) ^ (hash % (1 << 40))
        }
        for topic in ["", "a", "apns.requests", "foobar"] {
            #expect(DerivedID.topicHash(lend(topic)) == fold(topic))
        }
        // The published test vector of FNV-1a 64 for "foobar" is 85944171f73967e8.
        #expect(DerivedID.topicHash(lend("foobar")) == 0x71F7_3967E8 ^ 0x85_9441)
    }

    @Test(
        arguments: [
            ("00", "00", .none),
            (String(repeating: "AbCdEf09", count: 8), String(repeating: "abcdef09", count: 8), .none),
            (String(repeating: "fF", count: 100), String(repeating: "ff", count: 100), .none),
            ("", "", .missingDeviceToken),
            ("0", "0", .badDeviceToken), ("0g", "0g", .badDeviceToken), (" 00", " 00", .badDeviceToken),
            (String(repeating: "A", count: 202), String(repeating: "A", count: 200), .badDeviceToken),
            (String(repeating: "A", count: 63) + "G", String(repeating: "A", count: 63) + "G", .badDeviceToken),
        ] as [(String, String, ReasonCode)])
    func `A device token is validated and converted to lower case`(written: String, kept: String, failure: ReasonCode) {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 1)
        defer { room.deallocate() }
        let found = DeviceToken.normalize(lend(written), into: room)
        #expect(found.failure == failure)
        #expect(text(UnsafeRawBufferPointer(rebasing: room[..<found.count])) == kept)
    }

    /// Tries every byte at every position: only hex digits are valid.
    @Test func `Every byte of a token is checked`() {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 1)
        defer { room.deallocate() }
        var wrong: [String] = []
        for place in 0..<34 {
            for byte in UInt8(0)...255 {
                var token = Array(repeating: UInt8(ascii: "7"), count: 34)
                token[place] = byte
                let isHex = Character(Unicode.Scalar(byte)).isASCII && Character(Unicode.Scalar(byte)).isHexDigit
                let found = token.withUnsafeBytes { DeviceToken.normalize($0, into: room) }
                if (found.failure == .none) != isHex { wrong.append("\(byte) at \(place)") }
            }
        }
        #expect(wrong == [])
    }

    @Test func `Each reason is spelled like its code`() {
        for code in ReasonCode.allCases where code != .none && code != .other {
            let text = code.text?.description ?? ""
            let isSpelled = text.prefix(1).lowercased() + text.dropFirst() == "\(code)"
            #expect(isSpelled || code == .serviceUnavailableSpaced && text == "Service Unavailable")
            #expect(ReasonCode(text) == code)
        }
        #expect(ReasonCode("") == nil && ReasonCode("badTopic") == nil && ReasonCode.other.text == nil)
    }

    /// Swift programs can use the same reasons as the worker.
    @Test func `Every reason has a public constant`() throws {
        let source = try Repository.text("Sources/PushRecords/Results/KnownReasons.swift")
        let named = source.matches(of: #/static let \w+ = Reason\(rawValue: "([^"]+)"\)/#).map { String($0.output.1) }
        for reason in ReasonCode.allCases.compactMap({ $0.text?.description }) {
            #expect(named.contains(reason), "KnownReasons.swift has no name for \(reason)")
        }
    }
}

@Suite struct RecordTimeTests {
    /// Numbers at which arithmetic or checks change.
    static let boundaries: [Int64] = [
        .min, .min + 1, .min + 400, -253_402_300_799_999, -1, 0, 1, 1_790_000_000_000, RecordTime.latestMs - 1,
        RecordTime.latestMs, RecordTime.latestMs + 1, 1 << 48, 1 << 62, .max - 1, .max,
    ]

    @Test(arguments: boundaries)
    func `A timestamp is known if it is within the bounds`(_ ms: Int64) {
        let checked = RecordTime.checked(ms)
        #expect(checked == (ms >= 1 && ms <= RecordTime.latestMs ? ms : RecordTime.unknown))
    }

    @Test(arguments: boundaries, boundaries)
    func `Sums and ages of any numbers stay within the bounds`(_ ms: Int64, _ other: Int64) {
        let sum = RecordTime.adding(other, to: ms)
        #expect(sum >= 0 && sum <= RecordTime.latestMs)
        #expect((sum == RecordTime.unknown) == (RecordTime.checked(ms) == RecordTime.unknown))
        let age = RecordTime.age(of: ms, nowMs: other)
        #expect(age >= 0 && age <= RecordTime.latestMs)
    }

    @Test func `An unknown time has no age`() {
        #expect(RecordTime.age(of: -1, nowMs: 1_790_000_000_000) == 0)
        #expect(RecordTime.age(of: 0, nowMs: 1_790_000_000_000) == 0)
        #expect(RecordTime.age(of: 1_000, nowMs: 3_500) == 2_500)
        #expect(RecordTime.adding(500, to: 1_000) == 1_500)
    }

    @Test func `A scheduled notification has no age until its time`() {
        #expect(RecordTime.start(5_000, notBefore: 0) == 5_000)
        #expect(RecordTime.start(5_000, notBefore: 4) == 5_000)
        #expect(RecordTime.start(5_000, notBefore: 6) == 6_000)
        #expect(RecordTime.start(RecordTime.unknown, notBefore: 6) == RecordTime.unknown)
        #expect(RecordTime.start(RecordTime.latestMs, notBefore: .max) == RecordTime.latestMs)
        #expect(RecordTime.start(1, notBefore: .max) == 4_294_967_295_000)
    }
}

import Bytes
import Foundation
import PushRecords
import Testing

/// Mutated records: the parser never crashes, keeps its own rules, and says of the forms what a slow reading with
/// Foundation says.
@Suite struct RequestMutationTests {
    static let seeds: [(value: String, headers: [(String, String?)])] = [
        (hi, [("apns-topic", "com.ex"), ("apns-priority", "10"), ("apns-push-type", "alert")]),
        (#"{"payload":{"aps":{}},"device_tokens":["\#(tokenA)","\#(tokenB)"],"app":"a"}"#, []),
        (
            #"{"device_token":"ab","environment":"production","headers":{"apns-priority":10,"apns-id":"x"},"payload":{}}"#,
            [("traceparent", "x")]
        ),
        (#"{"channel_id":"YQ==","payload":{"aps":{"a":"\u00e9"}},"headers":{"apns-topic":"t"}}"#, []),
    ]
    static let bytes = Array("{}[]\":,\\u0eE.-+ \n\ttrfn19aFpyloadevic_tksh".utf8) + [0, 0x1F, 0x80, 0xC3, 0xFF]

    @Test(arguments: [21, 22, 23, 24] as [UInt64])
    func `Never crashes and keeps the rules`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var parser = RequestParser(copyHeaders: ["apns-topic"])
        var forms = (payload: 0, envelope: 0, dead: 0, invalid: 0)
        for round in 0..<2_500 {
            let base = Self.seeds.randomElement(using: &random)!
            var record = TestRecord(key: [nil, tokenA, "k"].randomElement(using: &random)!, base.value, base.headers)
            for _ in 0..<Int.random(in: 0...1, using: &random) { mutate(&record.value!, &random) }
            for place in record.headers.indices where Int.random(in: 0..<4, using: &random) == 0 {
                mutate(&record.headers[place].value!, &random)
            }
            let role: RecordRole = Int.random(in: 0..<8, using: &random) == 0 ? .retry : .request
            let found = parser.parse(record, role: role)
            check(found, record, role, "seed \(seed) round \(round)")
            if found.deadLetter != nil {
                forms.dead += 1
            } else if found.isInvalid {
                forms.invalid += 1
            } else if found.form == .envelope {
                forms.envelope += 1
            } else {
                forms.payload += 1
            }
        }
        #expect(forms.payload > 100 && forms.envelope > 100 && forms.dead > 100 && forms.invalid > 100, "\(forms)")
    }

    private func check(_ found: OwnedRequest, _ record: TestRecord, _ role: RecordRole, _ place: String) {
        func expect(_ holds: Bool, _ rule: StaticString) {
            if !holds { Issue.record("\(rule): \(place): \(String(decoding: record.value!, as: UTF8.self))") }
        }
        expect((found.target == .none) == (found.deadLetter != nil), "no target means dead letter")
        expect((found.tokenCount == 0) == (found.deadLetter != nil), "no token means dead letter")
        expect(
            found.target != .devices || found.tokens.count == found.tokenCount,
            "the cursor reads as many as were counted")
        expect(found.isInvalid || found.deadLetter != nil || found.detail.isEmpty, "a detail says what is wrong")
        if found.deadLetter == nil && !found.isInvalid {
            for header in [found.topic, found.channelID, found.collapseID] {
                expect(header.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }, "headers are printable ASCII")
            }
            expect(found.payload.utf8.count >= 2 && found.payload.utf8.count <= 5_120, "a payload has 2 to 5120 bytes")
        }
        guard role == .request, found.deadLetter != .notJSON, found.deadLetter != .tombstone,
            let object = try? JSONSerialization.jsonObject(with: Data(record.value!)) as? [String: Any]
        else { return }
        let targets = ["device_token", "device_tokens", "channel_id"]
        let isEnvelope =
            object["payload"] != nil && object["aps"] == nil && targets.contains { object[$0] != nil }
        expect((found.form == .envelope) == isEnvelope, "the form is the one Foundation sees")
        guard isEnvelope, found.deadLetter == nil else { return }
        if found.target == .devices && Set(object.keys).count == object.count {
            let tokens = object["device_tokens"] as? [String]
            expect(tokens?.count == found.tokenCount || found.isInvalid, "Foundation counts as many tokens")
        }
    }

    private func mutate(_ bytes: inout [UInt8], _ random: inout SplitMix64) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0: bytes.insert(Self.bytes.randomElement(using: &random)!, at: place)
        case 1: if place < bytes.count { bytes[place] = Self.bytes.randomElement(using: &random)! }
        case 2: if place < bytes.count { bytes.remove(at: place) }
        case 3: if Bool.random(using: &random) { bytes.removeLast(bytes.count - place) }
        default:
            let end = Int.random(in: place...bytes.count, using: &random)
            bytes.insert(contentsOf: Array(bytes[place..<end]), at: Int.random(in: 0...bytes.count, using: &random))
        }
    }
}

import Foundation
import PushRecords
import Testing

@Suite struct DecoderTests {
    static let result = #"""
        {"apns_id": "EABEAE54-14A8-11E5-B60B-1697F925EC7B", "apns_unique_id": "u", "device_token": "00", "apns_topic": "t",
         "app": "shop", "environment": "production", "outcome": "rejected", "status": 400, "reason": "BadTopic",
         "detail": "d", "unregistered_at_ms": 1, "attempts": 2, "in_doubt": 1, "requested_at_ms": 3, "sent_at_ms": 4,
         "settled_at_ms": 5, "request": {"topic": "r", "partition": 3, "offset": 1234, "index": 7, "key": "k", "new": {}},
         "added_later": [1, {"outcome": "x"}]}
        """#

    @Test func `Every member of a result is read`() throws {
        let result = try DeliveryResult(json: Data(Self.result.utf8))
        #expect(result.apnsID?.description == "eabeae54-14a8-11e5-b60b-1697f925ec7b" && result.apnsUniqueID == "u")
        #expect(
            result.deviceToken == "00" && result.channelID == nil && result.apnsTopic == "t" && result.app == "shop")
        #expect(result.environment == .production && result.outcome == .rejected && result.status == 400)
        #expect(result.reason?.rawValue == "BadTopic" && result.detail == "d" && result.unregisteredAtMs == 1)
        #expect(result.attempts == 2 && result.inDoubt == 1 && result.requestedAtMs == 3 && result.sentAtMs == 4)
        #expect(result.settledAtMs == 5 && result.request.description == "r/3/1234/7" && result.request.key == "k")
        #expect(result.reason == .badTopic && result.isInDoubt && result.device?.hex == "00")
        #expect(DeliveryResult.Request(text: "r/3/1234/7")?.description == "r/3/1234/7")
        #expect(DeliveryResult.Request(text: "r/3/1234") == nil && DeliveryResult.Request(text: "") == nil)
        // A collection that is not contiguous gives the same result.
        #expect(try DeliveryResult(json: Array(Self.result.utf8).lazy.map { $0 }) == result)
    }

    @Test func `An absent member and null are the same`() throws {
        let always =
            #""outcome":"accepted","attempts":1,"in_doubt":0,"requested_at_ms":3,"settled_at_ms":5,"#
            + #""request":{"topic":"r","partition":3,"offset":1234,"index":7"#
        let optional = [
            "apns_id", "apns_unique_id", "device_token", "channel_id", "apns_topic", "app", "environment", "status",
            "reason", "detail", "unregistered_at_ms", "sent_at_ms",
        ]
        let nulls = optional.map { #""\#($0)":null,"# }.joined()
        let bare = try DeliveryResult(json: Array("{\(always)}}".utf8))
        #expect(bare.apnsID == nil && bare.apnsUniqueID == nil && bare.deviceToken == nil && bare.channelID == nil)
        #expect(bare.apnsTopic == nil && bare.app == nil && bare.environment == nil && bare.status == nil)
        #expect(bare.reason == nil && bare.detail == nil && bare.unregisteredAtMs == nil && bare.sentAtMs == nil)
        #expect(bare.request.key == nil && bare.attempts == 1 && bare.settledAtMs == 5)
        #expect(try DeliveryResult(json: Array("{\(nulls)\(always),\"key\":null}}".utf8)) == bare)

        let token = try UnregisteredToken(json: Array(#"{"device_token":"00ff","observed_at_ms":8}"#.utf8))
        #expect(token.apnsTopic == nil && token.app == nil && token.environment == nil && token.reason == nil)
        #expect(token.unregisteredAtMs == nil && token.observedAtMs == 8)
        let tokenNulls = optional.filter { !["device_token"].contains($0) }.map { #","\#($0)":null"# }.joined()
        let same = Array(#"{"device_token":"00ff","observed_at_ms":8\#(tokenNulls)}"#.utf8)
        #expect(try UnregisteredToken(json: same) == token)
    }

    @Test(arguments: [
        ("", "not JSON: ends too early at byte 0"), ("[]", ": another kind of value was expected at byte 0"),
        (#"{"outcome":"accepted"}"#, "request is missing"), (#"{"request":{}}"#, "request.topic is missing"),
        (#"{"outcome":"lost"}"#, "outcome: \"lost\" is not a known value"),
        (#"{"status":"x"}"#, "status: another kind"),
        (#"{"request":{"partition":3000000000}}"#, "partition: 3000000000 is out of range"),
        ("{}", "outcome is missing"),
        (#"{"attempts":1.5}"#, "attempts: not a 64-bit integer"),
        (#"{"apns_id":"x"}"#, "apns_id: \"x\" is not a known value"),
    ])
    func `An invalid result is refused with the member's name`(json: String, complaint: String) {
        let error = #expect(throws: RecordError.self) { try DeliveryResult(json: Array(json.utf8)) }
        #expect(error?.description.contains(complaint) == true, "\(String(describing: error))")
    }

    @Test func `An unregistered token is read`() throws {
        let json = #"""
            {"device_token": "00ff", "apns_topic": "t", "app": "shop", "environment": "development", "reason": "Unregistered",
             "unregistered_at_ms": 7, "observed_at_ms": 8, "more": null}
            """#
        let token = try UnregisteredToken(json: Array(json.utf8))
        #expect(token.deviceToken == "00ff" && token.apnsTopic == "t" && token.app == "shop")
        #expect(token.environment == .development && token.reason?.rawValue == "Unregistered")
        #expect(token.unregisteredAtMs == 7 && token.observedAtMs == 8)
        #expect(throws: RecordError.self) { try UnregisteredToken(json: Array("{}".utf8)) }
        #expect(token.isDead(registeredAtMs: 6) && !token.isDead(registeredAtMs: 7))
        var untimed = token
        untimed.unregisteredAtMs = nil
        #expect(untimed.isDead(registeredAtMs: 7) && !untimed.isDead(registeredAtMs: 8))
    }
}

import PushRecords
import Testing

@testable import APNsSimulator

/// Apple's rules for a request, as a table.
struct RequestCheckTests {
    static let rows: [RequestRule] = [
        RequestRule("as it is", .none) { $0 },
        RequestRule(":method", "GET", .methodNotAllowed),
        RequestRule(":method", "PUT", .methodNotAllowed),
        RequestRule(":path", "/", .badPath),
        RequestRule(":path", "/3/devices/\(plainToken)", .badPath),
        RequestRule(":path", "/4/device/\(plainToken)", .badPath),
        RequestRule(":path", "/3/device", .missingDeviceToken),
        RequestRule(":path", "/3/device/", .missingDeviceToken),
        RequestRule(":path", "/3/device/abc", .badDeviceToken),
        RequestRule(":path", "/3/device/xy", .badDeviceToken),
        RequestRule(":path", "/3/device/ab/", .badDeviceToken),
        RequestRule(":path", "/3/device/ab", .none),
        RequestRule(":path", "/3/device/\(plainToken.uppercased())", .none),
        RequestRule(":path", "/3/device/\(String(repeating: "a", count: 200))", .none),
        RequestRule(":path", "/3/device/\(String(repeating: "a", count: 202))", .badDeviceToken),
        RequestRule("apns-id", nil, .none),
        RequestRule("apns-id", "", .badMessageId),
        RequestRule("apns-id", "123e4567e89b12d3a45642665544000a", .badMessageId),
        RequestRule("apns-id", "123e4567-e89b-12d3-a456-42665544000g", .badMessageId),
        RequestRule("apns-id", "123E4567-E89B-12D3-A456-42665544000A", .none),
        RequestRule("apns-id", "00000000-0000-0000-0000-000000000000", .none),
        RequestRule("apns-topic", nil, .missingTopic),
        RequestRule("apns-topic", "", .missingTopic),
        RequestRule("apns-topic", "com.example/app", .badTopic),
        RequestRule("apns-push-type", nil, .none),
        RequestRule("apns-push-type", "", .invalidPushType),
        RequestRule("apns-push-type", "Alert", .invalidPushType),
        RequestRule("apns-push-type", "alerts", .invalidPushType),
        RequestRule("apns-push-type", "mdm", .none),
        RequestRule("apns-priority", nil, .none),
        RequestRule("apns-priority", "1", .none),
        RequestRule("apns-priority", "5", .none),
        RequestRule("apns-priority", "05", .badPriority),
        RequestRule("apns-priority", "7", .badPriority),
        RequestRule("apns-priority", "", .badPriority),
        RequestRule("background, 5", .none) { $0.with("apns-push-type", "background").with("apns-priority", "5") },
        RequestRule("background, 10", .badPriority) { $0.with("apns-push-type", "background") },
        RequestRule("background, 1", .badPriority) {
            $0.with("apns-push-type", "background").with("apns-priority", "1")
        },
        RequestRule("background, none", .badPriority) {
            $0.with("apns-push-type", "background").with("apns-priority", nil)
        },
        RequestRule("apns-expiration", nil, .none),
        RequestRule("apns-expiration", "0", .none),
        RequestRule("apns-expiration", "4294967295", .none),
        RequestRule("apns-expiration", "4294967296", .badExpirationDate),
        RequestRule("apns-expiration", "-1", .badExpirationDate),
        RequestRule("apns-expiration", "1.5", .badExpirationDate),
        RequestRule("apns-expiration", "", .badExpirationDate),
        RequestRule("apns-expiration", "99999999999999999999", .badExpirationDate),
        RequestRule("apns-collapse-id", nil, .none),
        RequestRule("apns-collapse-id", String(repeating: "x", count: 64), .none),
        RequestRule("apns-collapse-id", String(repeating: "x", count: 65), .badCollapseId),
        RequestRule("apns-id twice", .duplicateHeaders) { $0.twice("apns-id") },
        RequestRule("apns-topic twice", .duplicateHeaders) { $0.twice("apns-topic") },
        RequestRule("apns-collapse-id twice", .duplicateHeaders) {
            $0.with("apns-collapse-id", "").twice("apns-collapse-id")
        },
        RequestRule("apns-priority twice", .duplicateHeaders) { $0.twice("apns-priority") },
        RequestRule("unknown twice", .none) { $0.with("x-custom", "1").twice("x-custom") },
        RequestRule("no payload", .payloadEmpty) { $0.with(body: "") },
        RequestRule("an array", .payloadEmpty) { $0.with(body: "[1]") },
        RequestRule("no JSON", .payloadEmpty) { $0.with(body: "{aps}") },
        RequestRule("an empty object", .none) { $0.with(body: "{}") },
        RequestRule("4096 bytes", .none) { $0.with(body: payload(4096)) },
        RequestRule("4097 bytes", .payloadTooLarge) { $0.with(body: payload(4097)) },
        RequestRule("5120 bytes, voip", .none) { $0.to(".voip", "voip").with(body: payload(5120)) },
        RequestRule("5121 bytes, voip", .payloadTooLarge) { $0.to(".voip", "voip").with(body: payload(5121)) },
        RequestRule("5120 bytes, .voip without a type", .none) { $0.to(".voip", nil).with(body: payload(5120)) },
    ]

    /// Apple's table of suffixes, "Sending notification requests to APNs".
    static let suffixes: [(type: String, suffix: String)] = [
        ("voip", ".voip"), ("complication", ".complication"), ("fileprovider", ".pushkit.fileprovider"),
        ("location", ".location-query"), ("liveactivity", ".push-type.liveactivity"), ("pushtotalk", ".voip-ptt"),
        ("widgets", ".push-type.widgets"), ("controls", ".push-type.controls"), ("alert", ""), ("background", ""),
        ("mdm", ""),
    ]

    @Test(arguments: suffixes.map(\.type), suffixes.map(\.suffix))
    func `A push type and its topic have to fit`(type: String, suffix: String) throws {
        let wanted = try #require(Self.suffixes.first { $0.type == type }).suffix
        let sample = SampleRequest().to(suffix, type).with("apns-priority", "5")
        let reason: ReasonCode =
            wanted == suffix ? .none : suffix.isEmpty ? .deviceTokenNotForTopic : .invalidPushType
        #expect(sample.refusal() == reason)
        #expect(sample.refusal(RequestCheck(checksTopicSuffixes: false)) == .none)
        let check = RequestCheck(bundleIDs: [Array("com.example.app".utf8)])
        #expect(sample.refusal(check) == reason)
        // Without one, the topic says it all.
        #expect(sample.with("apns-push-type", nil).refusal() == .none)
        // A certificate's topic stands for one that is not given.
        if type != "location" {
            let certificate = RequestCheck(
                defaultTopic: Array("com.example.app\(suffix)".utf8), isCertificate: true)
            #expect(sample.with("apns-topic", nil).refusal(certificate) == reason)
        }
        #expect(Self.suffixes.count == PushType.allCases.count)
    }

    static func payload(_ size: Int) -> String { "{\"a\":\"" + String(repeating: "x", count: size - 8) + "\"}" }

    @Test(arguments: rows)
    func `Apples rules`(row: RequestRule) { #expect(row.change(SampleRequest()).refusal() == row.reason) }

    @Test(arguments: [
        ("com.example.app", ReasonCode.none), ("com.example.app.voip", .none),
        ("com.example.app.push-type.liveactivity", .none), ("com.example.app.other", .topicDisallowed),
        ("com.example.ap", .topicDisallowed), ("com.example.shop", .none),
    ])
    func `Only configured bundles may be pushed to`(topic: String, reason: ReasonCode) {
        let check = RequestCheck(bundleIDs: [Array("com.example.app".utf8), Array("com.example.shop".utf8)])
        #expect(SampleRequest().with("apns-topic", topic).with("apns-push-type", nil).refusal(check) == reason)
    }

    @Test func `A certificate brings its topic and no location`() {
        let check = RequestCheck(defaultTopic: Array("com.example.app".utf8), isCertificate: true)
        #expect(SampleRequest().with("apns-topic", nil).refusal(check) == .none)
        #expect(SampleRequest().with("apns-push-type", "location").refusal(check) == .invalidPushType)
    }

    @Test func `A field that came empty twice is a duplicate`() {
        #expect(SampleRequest().with("apns-collapse-id", "").twice("apns-collapse-id").refusal() == .duplicateHeaders)
    }

    @Test func `The ID is read`() {
        var request = CheckedRequest()
        #expect(RequestCheck().target(SampleRequest().fields, into: &request) == .none)
        #expect(request.id == NotificationUUID(high: 0x123e_4567_e89b_12d3, low: 0xa456_4266_5544_000a))
        #expect(String(decoding: request.token, as: UTF8.self) == plainToken)
    }

    @Test func `Every reason has Apple s status`() {
        // The page's table, copied by hand: status, how many reasons it has.
        let counts = Dictionary(grouping: (1...32).map { Answer(ReasonCode(rawValue: $0)!).status }, by: { $0 })
            .mapValues(\.count)
        #expect(counts == [400: 14, 403: 8, 404: 1, 405: 1, 410: 2, 413: 1, 429: 2, 500: 1, 503: 2])
    }
}

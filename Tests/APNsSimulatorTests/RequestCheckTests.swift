import PushRecords
import Testing

@testable import APNsSimulator

/// Apple's rules for a request, as a table.
struct RequestCheckTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var reason: ReasonCode
        var change: @Sendable (SampleRequest) -> SampleRequest
        var testDescription: String { name }

        init(_ name: String, _ reason: ReasonCode, _ change: @escaping @Sendable (SampleRequest) -> SampleRequest) {
            self.name = name
            self.reason = reason
            self.change = change
        }

        init(_ header: String, _ value: String?, _ reason: ReasonCode) {
            self.init("\(header): \(value?.prefix(40) ?? "absent")", reason) { $0.with(header, value) }
        }
    }

    static let rows: [Row] = [
        Row("as it is", .none) { $0 },
        Row(":method", "GET", .methodNotAllowed),
        Row(":method", "PUT", .methodNotAllowed),
        Row(":path", "/", .badPath),
        Row(":path", "/3/devices/\(plainToken)", .badPath),
        Row(":path", "/4/device/\(plainToken)", .badPath),
        Row(":path", "/3/device", .missingDeviceToken),
        Row(":path", "/3/device/", .missingDeviceToken),
        Row(":path", "/3/device/abc", .badDeviceToken),
        Row(":path", "/3/device/xy", .badDeviceToken),
        Row(":path", "/3/device/ab/", .badDeviceToken),
        Row(":path", "/3/device/ab", .none),
        Row(":path", "/3/device/\(plainToken.uppercased())", .none),
        Row(":path", "/3/device/\(String(repeating: "a", count: 200))", .none),
        Row(":path", "/3/device/\(String(repeating: "a", count: 202))", .badDeviceToken),
        Row("apns-id", nil, .none),
        Row("apns-id", "", .badMessageId),
        Row("apns-id", "123e4567e89b12d3a45642665544000a", .badMessageId),
        Row("apns-id", "123e4567-e89b-12d3-a456-42665544000g", .badMessageId),
        Row("apns-id", "123E4567-E89B-12D3-A456-42665544000A", .none),
        Row("apns-id", "00000000-0000-0000-0000-000000000000", .none),
        Row("apns-topic", nil, .missingTopic),
        Row("apns-topic", "", .missingTopic),
        Row("apns-topic", "com.example/app", .badTopic),
        Row("apns-topic", "com.example.app.voip", .none),
        Row("apns-push-type", nil, .none),
        Row("apns-push-type", "", .invalidPushType),
        Row("apns-push-type", "Alert", .invalidPushType),
        Row("apns-push-type", "alerts", .invalidPushType),
        Row("apns-push-type", "controls", .none),
        Row("apns-push-type", "complication", .none),
        Row("apns-push-type", "fileprovider", .none),
        Row("apns-push-type", "liveactivity", .none),
        Row("apns-push-type", "location", .none),
        Row("apns-push-type", "mdm", .none),
        Row("apns-push-type", "pushtotalk", .none),
        Row("apns-push-type", "voip", .none),
        Row("apns-push-type", "widgets", .none),
        Row("apns-priority", nil, .none),
        Row("apns-priority", "1", .none),
        Row("apns-priority", "5", .none),
        Row("apns-priority", "05", .badPriority),
        Row("apns-priority", "7", .badPriority),
        Row("apns-priority", "", .badPriority),
        Row("background, 5", .none) { $0.with("apns-push-type", "background").with("apns-priority", "5") },
        Row("background, 10", .badPriority) { $0.with("apns-push-type", "background") },
        Row("background, 1", .badPriority) { $0.with("apns-push-type", "background").with("apns-priority", "1") },
        Row("background, none", .badPriority) { $0.with("apns-push-type", "background").with("apns-priority", nil) },
        Row("apns-expiration", nil, .none),
        Row("apns-expiration", "0", .none),
        Row("apns-expiration", "4294967295", .none),
        Row("apns-expiration", "4294967296", .badExpirationDate),
        Row("apns-expiration", "-1", .badExpirationDate),
        Row("apns-expiration", "1.5", .badExpirationDate),
        Row("apns-expiration", "", .badExpirationDate),
        Row("apns-expiration", "99999999999999999999", .badExpirationDate),
        Row("apns-collapse-id", nil, .none),
        Row("apns-collapse-id", String(repeating: "x", count: 64), .none),
        Row("apns-collapse-id", String(repeating: "x", count: 65), .badCollapseId),
        Row("apns-id twice", .duplicateHeaders) { $0.twice("apns-id") },
        Row("apns-topic twice", .duplicateHeaders) { $0.twice("apns-topic") },
        Row("apns-priority twice", .duplicateHeaders) { $0.twice("apns-priority") },
        Row("unknown twice", .none) { $0.with("x-custom", "1").twice("x-custom") },
        Row("no payload", .payloadEmpty) { $0.with(body: "") },
        Row("an array", .payloadEmpty) { $0.with(body: "[1]") },
        Row("no JSON", .payloadEmpty) { $0.with(body: "{aps}") },
        Row("an empty object", .none) { $0.with(body: "{}") },
        Row("4096 bytes", .none) { $0.with(body: payload(4096)) },
        Row("4097 bytes", .payloadTooLarge) { $0.with(body: payload(4097)) },
        Row("5120 bytes, voip", .none) { $0.with("apns-push-type", "voip").with(body: payload(5120)) },
        Row("5121 bytes, voip", .payloadTooLarge) { $0.with("apns-push-type", "voip").with(body: payload(5121)) },
    ]

    /// The simulator has a check of its own for each; it and the worker's table have it from the same page.
    @Test(arguments: TextHeader.allCases)
    func textHeaders(header: TextHeader) {
        let name = header.row.name.description
        let longest = String(repeating: "x", count: header.row.limit)
        #expect(SampleRequest().with(name, nil).refusal() == .none)
        #expect(SampleRequest().with(name, longest).refusal() == .none)
        #expect(SampleRequest().with(name, longest + "x").refusal() == header.row.reason)
        for value in ["", "x"] {
            #expect(SampleRequest().with(name, value).twice(name).refusal() == .duplicateHeaders)
        }
    }

    static func payload(_ size: Int) -> String { "{\"a\":\"" + String(repeating: "x", count: size - 8) + "\"}" }

    @Test(arguments: rows)
    func applesRules(row: Row) { #expect(row.change(SampleRequest()).refusal() == row.reason) }

    @Test(arguments: [
        ("com.example.app", ReasonCode.none), ("com.example.app.voip", .none),
        ("com.example.app.push-type.liveactivity", .none), ("com.example.app.other", .topicDisallowed),
        ("com.example.ap", .topicDisallowed), ("com.example.shop", .none),
    ])
    func onlyConfiguredBundlesMayBePushedTo(topic: String, reason: ReasonCode) {
        let check = RequestCheck(bundleIDs: [Array("com.example.app".utf8), Array("com.example.shop".utf8)])
        #expect(SampleRequest().with("apns-topic", topic).refusal(check) == reason)
    }

    @Test func aCertificateBringsItsTopicAndNoLocation() {
        let check = RequestCheck(defaultTopic: Array("com.example.app".utf8), isCertificate: true)
        #expect(SampleRequest().with("apns-topic", nil).refusal(check) == .none)
        #expect(SampleRequest().with("apns-push-type", "location").refusal(check) == .invalidPushType)
    }

    @Test func aFieldThatCameEmptyTwiceIsADuplicate() {
        #expect(SampleRequest().with("apns-collapse-id", "").twice("apns-collapse-id").refusal() == .duplicateHeaders)
    }

    @Test func theIDIsRead() {
        var request = CheckedRequest()
        #expect(RequestCheck().target(SampleRequest().fields, into: &request) == .none)
        #expect(request.id == NotificationUUID(high: 0x123e_4567_e89b_12d3, low: 0xa456_4266_5544_000a))
        #expect(String(decoding: request.token, as: UTF8.self) == plainToken)
    }

    @Test func everyReasonHasApplesStatus() {
        // The page's table, copied by hand: status, how many reasons it has.
        let counts = Dictionary(grouping: (1...32).map { Answer(ReasonCode(rawValue: $0)!).status }, by: { $0 })
            .mapValues(\.count)
        #expect(counts == [400: 14, 403: 8, 404: 1, 405: 1, 410: 2, 413: 1, 429: 2, 500: 1, 503: 2])
    }
}

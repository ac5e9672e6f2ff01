import PushRecords
import Testing

@testable import APNsSimulator

/// Apple's rules for a request, as a table.
struct RequestCheckTests {
    static let rows: [RequestRule] = [
        RequestRule.each(":method", .methodNotAllowed, "GET", "PUT"),
        RequestRule.each(":path", .badPath, "/", "/3/devices/\(plainToken)", "/4/device/\(plainToken)"),
        RequestRule.each(":path", .missingDeviceToken, "/3/device", "/3/device/"),
        RequestRule.each(
            ":path", .badDeviceToken, "/3/device/abc", "/3/device/xy", "/3/device/ab/",
            "/3/device/\(String(repeating: "a", count: 202))"),
        RequestRule.each(
            ":path", .none, "/3/device/ab", "/3/device/\(plainToken.uppercased())",
            "/3/device/\(String(repeating: "a", count: 200))"),
        RequestRule.each(
            "apns-id", .none, nil, "123E4567-E89B-12D3-A456-42665544000A", "00000000-0000-0000-0000-000000000000"),
        RequestRule.each(
            "apns-id", .badMessageId, "", "123e4567e89b12d3a45642665544000a", "123e4567-e89b-12d3-a456-42665544000g"),
        RequestRule.each("apns-topic", .missingTopic, nil, ""),
        RequestRule.each("apns-topic", .badTopic, "com.example/app"),
        RequestRule.each("apns-push-type", .none, nil, "mdm"),
        RequestRule.each("apns-push-type", .invalidPushType, "", "Alert", "alerts"),
        RequestRule.each("apns-priority", .none, nil, "1", "5"),
        RequestRule.each("apns-priority", .badPriority, "05", "7", ""),
        RequestRule.each("apns-expiration", .none, nil, "0", "4294967295"),
        RequestRule.each(
            "apns-expiration", .badExpirationDate, "4294967296", "-1", "+1", "1.5", "", "99999999999999999999"),
        RequestRule.each("apns-collapse-id", .none, nil, String(repeating: "x", count: 64)),
        RequestRule.each("apns-collapse-id", .badCollapseId, String(repeating: "x", count: 65)),
        ["5", "10", "1", nil].map { priority in
            RequestRule("background, \(priority ?? "none")", priority == "5" ? .none : .badPriority) {
                $0.with("apns-push-type", "background").with("apns-priority", priority)
            }
        },
        ["apns-id", "apns-topic", "apns-priority"].map { header in
            RequestRule("\(header) twice", .duplicateHeaders) { $0.twice(header) }
        },
        [
            RequestRule("unchanged", .none) { $0 },
            RequestRule("an empty header twice", .duplicateHeaders) {
                $0.with("apns-collapse-id", "").twice("apns-collapse-id")
            },
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
        ],
    ].flatMap { $0 }

    /// The suffixes of Apple's documentation, "Sending notification requests to APNs".
    static let suffixes: [(type: String, suffix: String)] = [
        ("voip", ".voip"), ("complication", ".complication"), ("fileprovider", ".pushkit.fileprovider"),
        ("location", ".location-query"), ("liveactivity", ".push-type.liveactivity"), ("pushtotalk", ".voip-ptt"),
        ("widgets", ".push-type.widgets"), ("controls", ".push-type.controls"), ("alert", ""), ("background", ""),
        ("mdm", ""),
    ]

    @Test(arguments: suffixes.map(\.type), suffixes.map(\.suffix))
    func `The topic's suffix must match the push type`(type: String, suffix: String) throws {
        let wanted = try #require(Self.suffixes.first { $0.type == type }).suffix
        let sample = SampleRequest().to(suffix, type).with("apns-priority", "5")
        let reason: ReasonCode = wanted == suffix ? .none : suffix.isEmpty ? .deviceTokenNotForTopic : .invalidPushType
        #expect(sample.refusal() == reason)
        #expect(sample.refusal(RequestCheck(checksTopicSuffixes: false)) == .none)
        let check = RequestCheck(bundleIDs: [Array("com.example.app".utf8)])
        #expect(sample.refusal(check) == reason)
        // A request without a push type is accepted with any topic.
        #expect(sample.with("apns-push-type", nil).refusal() == .none)
        // A request without a topic uses that of the certificate, which does not allow location pushes.
        let certificate = RequestCheck(defaultTopic: Array("com.example.app\(suffix)".utf8), isCertificate: true)
        #expect(sample.with("apns-topic", nil).refusal(certificate) == (type == "location" ? .invalidPushType : reason))
        #expect(Self.suffixes.count == PushType.allCases.count)
    }

    @Test(arguments: rows)
    func `A request is checked by Apple's rules`(row: RequestRule) {
        #expect(row.change(SampleRequest()).refusal() == row.reason)
    }

    @Test(arguments: [
        ("com.example.app", ReasonCode.none), ("com.example.app.voip", .none),
        ("com.example.app.push-type.liveactivity", .none), ("com.example.app.other", .topicDisallowed),
        ("com.example.ap", .topicDisallowed), ("com.example.shop", .none),
    ])
    func `Only topics of the configured bundle ids are accepted`(topic: String, reason: ReasonCode) {
        let check = RequestCheck(bundleIDs: [Array("com.example.app".utf8), Array("com.example.shop".utf8)])
        #expect(SampleRequest().with("apns-topic", topic).with("apns-push-type", nil).refusal(check) == reason)
    }
}

import Foundation
import HTTP2
import PushRecords
import Testing

@testable import APNsSimulator

/// Apple's rules for broadcasts and for the management of their channels, as tables and over real connections.
@Suite(.timeLimit(.minutes(5)))
struct BroadcastTests {
    static let bundle = "com.example.app"
    /// Base64 of 16 bytes that are not the id of a channel.
    static let unknownID = "AAECAwQFBgcICQoLDA0ODw=="

    static let rows: [RequestRule] = [
        RequestRule.each(":method", .methodNotAllowed, "GET"),
        RequestRule.each(
            ":path", .badPath, "/4/broadcasts/apps", "/4/broadcasts/apps/", "/4/broadcasts/apps/com.example.app/more",
            "/3/broadcasts/apps/com.example.app"),
        RequestRule.each(
            ":path", .topicDisallowed, "/4/broadcasts/apps/com.example.app.push-type.liveactivity",
            "/4/broadcasts/apps/com.example.app.voip"),
        RequestRule.each(":path", .topicMismatch, "/4/broadcasts/apps/com.example.other"),
        RequestRule.each(":path", .featureNotEnabled, "/4/broadcasts/apps/com.example.plain"),
        RequestRule.each("apns-topic", .none, nil, "com.example.app.push-type.liveactivity"),
        RequestRule.each("apns-request-id", .none, nil),
        RequestRule.each("apns-request-id", .badMessageId, "123e4567"),
        RequestRule.each("apns-channel-id", .missingChannelId, nil),
        RequestRule.each("apns-channel-id", .badChannelId, "", "no base64!", String(repeating: "QUFB", count: 34)),
        RequestRule.each("apns-channel-id", .channelNotRegistered, unknownID),
        RequestRule.each("apns-push-type", .missingPushType, nil),
        RequestRule.each("apns-push-type", .invalidPushType, "alert", ""),
        RequestRule.each("apns-push-type", .none, "Liveactivity"),
        RequestRule.each("apns-priority", .none, nil, "1"),
        RequestRule.each("apns-priority", .badPriority, "7"),
        RequestRule.each("apns-expiration", .none, nil),
        RequestRule.each("apns-expiration", .badExpirationDate, "soon", "1790000000"),
        [
            RequestRule("unchanged", .none) { $0 },
            RequestRule("apns-channel-id twice", .duplicateHeaders) { $0.twice("apns-channel-id") },
            RequestRule("apns-request-id twice", .duplicateHeaders) { $0.twice("apns-request-id") },
            RequestRule("no payload", .payloadEmpty) { $0.with(body: "") },
            RequestRule("an array", .payloadEmpty) { $0.with(body: "[1]") },
            RequestRule("5120 bytes", .none) { $0.with(body: payload(5120)) },
            RequestRule("5121 bytes", .payloadTooLarge) { $0.with(body: payload(5121)) },
        ],
    ].flatMap { $0 }

    static func check() -> RequestCheck {
        RequestCheck(
            bundleIDs: [Array(bundle.utf8), Array("com.example.plain".utf8)],
            withoutBroadcast: [Array("com.example.plain".utf8)])
    }

    static func sample(_ channel: String) -> SampleRequest {
        SampleRequest(headers: [
            (":method", "POST"), (":scheme", "https"), (":path", "/4/broadcasts/apps/\(bundle)"),
            (":authority", "localhost"), ("apns-push-type", "liveactivity"), ("apns-priority", "10"),
            ("apns-expiration", "0"), ("apns-channel-id", channel),
            ("apns-request-id", "123e4567-e89b-12d3-a456-42665544000a"),
        ])
    }

    @Test(arguments: rows)
    func `A broadcast is checked by Apple's rules`(row: RequestRule) throws {
        let check = Self.check()
        let channel = try #require(check.channels.make(bundleID: Self.bundle, policy: .nothing))
        #expect(row.change(Self.sample(channel)).refusal(check) == row.reason)
    }

    @Test func `Only a channel that stores messages accepts an expiration`() throws {
        let check = Self.check()
        let storing = try #require(check.channels.make(bundleID: Self.bundle, policy: .mostRecent))
        #expect(Self.sample(storing).with("apns-expiration", "1790000000").refusal(check) == .none)
        // A channel belongs to one app.
        let other = try #require(check.channels.make(bundleID: "com.example.other", policy: .nothing))
        #expect(Self.sample(other).refusal(check) == .channelNotRegistered)
    }

    // MARK: Management

    /// Requests of channel management, and the reasons to refuse them. The path follows `/1/apps/`.
    static let managementRows: [(ReasonCode, method: String, path: String, channel: String?, body: String)] = [
        (.badPath, "GET", "com.example.app", nil, ""),
        (.badPath, "GET", "com.example.app/channel", nil, ""),
        (.badPath, "GET", "/channels", nil, ""),
        (.methodNotAllowed, "PUT", "com.example.app/channels", nil, ""),
        (.methodNotAllowed, "POST", "com.example.app/all-channels", nil, ""),
        (.topicDisallowed, "GET", "com.example.app.push-type.liveactivity/all-channels", nil, ""),
        (.topicMismatch, "GET", "com.example.other/all-channels", nil, ""),
        (.featureNotEnabled, "GET", "com.example.plain/all-channels", nil, ""),
        (.missingChannelId, "GET", "com.example.app/channels", nil, ""),
        (.badChannelId, "GET", "com.example.app/channels", "?", ""),
        (.channelNotRegistered, "GET", "com.example.app/channels", unknownID, ""),
        (.missingChannelId, "DELETE", "com.example.app/channels", nil, ""),
        (.channelNotRegistered, "DELETE", "com.example.app/channels", unknownID, ""),
    ]

    /// Bodies of requests to create a channel, and the reasons to refuse them.
    static let bodies: [(ReasonCode, String)] = [
        (.badRequestPayload, ""), (.badRequestPayload, "{"),
        (.badRequestParams, #"{"message-storage-policy":0,"push-type":"LiveActivity","name":"x"}"#),
        (.badRequestParams, #"{"push-type":"LiveActivity"}"#),
        (.badRequestParams, #"{"message-storage-policy":2,"push-type":"LiveActivity"}"#),
        (.missingPushType, #"{"message-storage-policy":0}"#),
        (.invalidPushType, #"{"message-storage-policy":0,"push-type":"liveactivity"}"#),
    ]

    static func manage(
        _ check: ManagementCheck, _ method: String, _ path: String, channel: String? = nil, body: String = ""
    ) -> ManagementCheck.Answer {
        var headers = [(":method", method), (":path", path)]
        if let channel { headers.append(("apns-channel-id", channel)) }
        let request = SampleRequest(headers: headers)
        let (target, refusal) = check.target(request.fields)
        guard let target else { return ManagementCheck.Answer(refusal) }
        return check.answer(target, request.fields, body: lent(body))
    }

    @Test func `An invalid request of channel management is refused with the documented reason`() {
        let check = ManagementCheck(common: Self.check())
        let rows = Self.managementRows + Self.bodies.map { ($0, "POST", "com.example.app/channels", nil, $1) }
        for (reason, method, path, channel, body) in rows {
            let answer = Self.manage(check, method, "/1/apps/\(path)", channel: channel, body: body)
            #expect(answer.reason == reason, "\(method) \(path) \(channel ?? "") \(body)")
            #expect(answer.status == APNsSimulator.Answer.status(of: reason))
        }
    }

    @Test func `An app has at most as many channels as the limit`() throws {
        var common = Self.check()
        common.channels = ChannelBook(limit: 2)
        let check = ManagementCheck(common: common)
        let path = "/1/apps/com.example.app/channels"
        func make() -> ManagementCheck.Answer {
            Self.manage(check, "POST", path, body: #"{"message-storage-policy": 1, "push-type": "LiveActivity"}"#)
        }
        let first = try #require(make().channelID)
        #expect(make().status == 201)
        #expect(make() == ManagementCheck.Answer(.cannotCreateChannelConfig))
        #expect(Self.manage(check, "DELETE", path, channel: first) == .init(status: 204))
        #expect(Self.manage(check, "DELETE", path, channel: first) == .init(.channelNotRegistered))
        let again = try #require(make().channelID)
        #expect(again != first)
        #expect(ChannelBook.appleLimit == 10_000)
    }

    // MARK: Over the wire

    /// A simulator, a client of its channel management, and a provider.
    static func managed() throws -> (Simulator, Provider, Provider) {
        let (simulator, provider) = try Simulator.connected { $0.managementPort = 0 }
        let manager = try Provider(simulator, port: simulator.managementPort, authorization: simulator.bearer())
        #expect(manager.isReady())
        return (simulator, manager, provider)
    }

    @Test func `A channel is created, used and deleted`() throws {
        let (simulator, manager, provider) = try Self.managed()
        let path = "/1/apps/com.example.app/channels"
        let made = try manager.ask("POST", path, body: #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
        #expect(made.status == 201 && made.body == "" && UUID(uuidString: made.requestID) != nil)
        let read = try manager.ask("GET", path, channel: made.channelID)
        #expect(read.status == 200 && read.body == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
        let list = try manager.ask("GET", "/1/apps/com.example.app/all-channels")
        #expect(list.body == "{\"channels\":[\"\(made.channelID)\"]}")

        let sent = try provider.ask(
            "POST", "/4/broadcasts/apps/com.example.app", channel: made.channelID, requestID: Self.id, isPush: true,
            body: "{}")
        #expect(sent.status == 200 && sent.requestID == Self.id)
        #expect(simulator.books.counts(ofChannel: made.channelID) == (1, 1))
        let unknown = try provider.ask(
            "POST", "/4/broadcasts/apps/com.example.app", channel: Self.unknownID, isPush: true, body: "{}")
        #expect(unknown.status == 400 && unknown.body == #"{"reason":"ChannelNotRegistered"}"#)
        #expect(UUID(uuidString: unknown.requestID) != nil)

        #expect(try manager.ask("DELETE", path, channel: made.channelID).status == 204)
        let gone = try manager.ask("GET", path, channel: made.channelID, requestID: Self.id)
        #expect(gone.body == #"{"reason":"ChannelNotRegistered"}"# && gone.requestID == Self.id)
        manager.authorization = "bearer nonsense"
        let forged = try manager.ask("GET", path)
        #expect(forged.status == 403 && forged.body == #"{"reason":"InvalidProviderToken"}"#)
    }

    @Test func `A channel id that begins like a token of the fault table requests the token's answer`() throws {
        let (_, manager, provider) = try Self.managed()
        let cases: [(code: String, status: Int, reason: String)] = [
            ("fa17c0000000", 400, "FeatureNotEnabled"), ("fa1742910000", 429, "TooManyRequests"),
            ("fa17c0090000", 503, "Service Unavailable"),
        ]
        for (code, status, reason) in cases {
            let channel = Data(try DeviceToken(hex: code).bytes).base64EncodedString()
            for answer in [
                try provider.ask(
                    "POST", "/4/broadcasts/apps/com.example.app", channel: channel, isPush: true, body: "{}"),
                try manager.ask("GET", "/1/apps/com.example.app/channels", channel: channel),
            ] {
                #expect(answer.status == status && answer.body == "{\"reason\":\"\(reason)\"}")
            }
        }
    }

    static let id = "123e4567-e89b-12d3-a456-42665544000a"
}

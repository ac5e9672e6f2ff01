import Foundation
import HTTP2
import PushRecords
import Testing

@testable import APNsSimulator

/// Apple's rules for broadcasts and for their channels, as tables, and both over real connections.
@Suite(.timeLimit(.minutes(5)))
struct BroadcastTests {
    static let bundle = "com.example.app"
    /// Base64 of 16 bytes that no channel has.
    static let unknownID = "AAECAwQFBgcICQoLDA0ODw=="

    static let rows: [RequestRule] = [
        RequestRule("as it is", .none) { $0 },
        RequestRule(":method", "GET", .methodNotAllowed),
        RequestRule(":path", "/4/broadcasts/apps", .badPath),
        RequestRule(":path", "/4/broadcasts/apps/", .badPath),
        RequestRule(":path", "/4/broadcasts/apps/com.example.app/more", .badPath),
        RequestRule(":path", "/3/broadcasts/apps/com.example.app", .badPath),
        RequestRule(":path", "/4/broadcasts/apps/com.example.app.push-type.liveactivity", .topicDisallowed),
        RequestRule(":path", "/4/broadcasts/apps/com.example.app.voip", .topicDisallowed),
        RequestRule(":path", "/4/broadcasts/apps/com.example.other", .topicMismatch),
        RequestRule(":path", "/4/broadcasts/apps/com.example.plain", .featureNotEnabled),
        RequestRule("apns-topic", nil, .none),
        RequestRule("apns-topic", "com.example.app.push-type.liveactivity", .none),
        RequestRule("apns-request-id", nil, .none),
        RequestRule("apns-request-id", "123e4567", .badMessageId),
        RequestRule("apns-channel-id", nil, .missingChannelId),
        RequestRule("apns-channel-id", "", .badChannelId),
        RequestRule("apns-channel-id", "no base64!", .badChannelId),
        RequestRule("apns-channel-id", String(repeating: "QUFB", count: 34), .badChannelId),
        RequestRule("apns-channel-id", unknownID, .channelNotRegistered),
        RequestRule("apns-push-type", nil, .missingPushType),
        RequestRule("apns-push-type", "alert", .invalidPushType),
        RequestRule("apns-push-type", "", .invalidPushType),
        RequestRule("apns-push-type", "Liveactivity", .none),
        RequestRule("apns-priority", nil, .none),
        RequestRule("apns-priority", "1", .none),
        RequestRule("apns-priority", "7", .badPriority),
        RequestRule("apns-expiration", nil, .none),
        RequestRule("apns-expiration", "soon", .badExpirationDate),
        RequestRule("apns-expiration", "1790000000", .badExpirationDate),
        RequestRule("apns-channel-id twice", .duplicateHeaders) { $0.twice("apns-channel-id") },
        RequestRule("apns-request-id twice", .duplicateHeaders) { $0.twice("apns-request-id") },
        RequestRule("no payload", .payloadEmpty) { $0.with(body: "") },
        RequestRule("an array", .payloadEmpty) { $0.with(body: "[1]") },
        RequestRule("5120 bytes", .none) { $0.with(body: RequestCheckTests.payload(5120)) },
        RequestRule("5121 bytes", .payloadTooLarge) { $0.with(body: RequestCheckTests.payload(5121)) },
    ]

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
        #expect(row.change(Self.sample(channel)).broadcastRefusal(check) == row.reason)
    }

    @Test func `Only a channel that stores messages takes an expiration`() throws {
        let check = Self.check()
        let storing = try #require(check.channels.make(bundleID: Self.bundle, policy: .mostRecent))
        #expect(Self.sample(storing).with("apns-expiration", "1790000000").broadcastRefusal(check) == .none)
        // A channel is one app's.
        let other = try #require(check.channels.make(bundleID: "com.example.other", policy: .nothing))
        #expect(Self.sample(other).broadcastRefusal(check) == .channelNotRegistered)
    }

    // MARK: Management

    /// A request of management, and the reason to refuse it. The path follows `/1/apps/`.
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

    /// The body of a request to make a channel, and the reason to refuse it.
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

    @Test func `Every refusal of management`() {
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

    @Test func `A channel is created, used and deleted`() throws {
        var options = SimulatorOptions()
        options.managementPort = 0
        let simulator = try Simulator(options)
        let manager = try Provider(simulator, port: simulator.managementPort, authorization: simulator.bearer())
        #expect(manager.isReady())
        let path = "/1/apps/com.example.app/channels"
        let made = try manager.ask("POST", path, body: #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
        #expect(made.status == 201 && made.body == "" && UUID(uuidString: made.requestID) != nil)
        let read = try manager.ask("GET", path, channel: made.channelID)
        #expect(read.status == 200 && read.body == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
        let list = try manager.ask("GET", "/1/apps/com.example.app/all-channels")
        #expect(list.body == "{\"channels\":[\"\(made.channelID)\"]}")

        let provider = try simulator.provider()
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

    /// A channel id whose bytes begin like a device token of the table gets that token's answer, in both places.
    @Test func `A channel id can request an answer`() throws {
        var options = SimulatorOptions()
        options.managementPort = 0
        let simulator = try Simulator(options)
        let manager = try Provider(simulator, port: simulator.managementPort, authorization: simulator.bearer())
        #expect(manager.isReady())
        let provider = try simulator.provider()
        let cases: [(code: String, status: Int, reason: String)] = [
            ("fa17c0000000", 400, "FeatureNotEnabled"), ("fa1742910000", 429, "TooManyRequests"),
            ("fa17c0090000", 503, "Service Unavailable"),
        ]
        for (code, status, reason) in cases {
            let bytes = stride(from: 0, to: code.utf8.count, by: 2).map { place in
                UInt8(code.dropFirst(place).prefix(2), radix: 16) ?? 0
            }
            let channel = Data(bytes).base64EncodedString()
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

extension SampleRequest {
    /// The simulator's refusal of it as a broadcast, without the check of the provider token.
    func broadcastRefusal(_ check: RequestCheck) -> ReasonCode {
        let fields = fields
        var request = CheckedRequest()
        let refusal = check.target(fields, into: &request)
        if refusal != .none { return refusal }
        guard request.isBroadcast else { return .other }
        if let bytes = channelBytes(fields.channelID) {
            request.token = lent(bytes.map { String(format: "%02x", $0) }.joined())
        }
        return check.content(fields, body: lent(body), bodySize: body.count, request: request)
    }
}

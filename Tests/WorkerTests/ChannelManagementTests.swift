import APNsSimulator
import Configuration
import Kafka
import PushRecords
import Testing

@testable import APNs
@testable import Worker

/// Manages broadcast channels at the simulator and checks the advice for the reasons of APNs.
@Suite(.serialized) struct ChannelManagementTests {
    private static func manage(
        _ operation: ManagementRequest.Operation, _ app: AppSettings,
        bundleID: String = SimulatorCredentials.bundleID
    ) throws -> ChannelManagement.Answer {
        try ChannelManagement.run(operation, bundleID: bundleID, of: app, timeoutNs: 10_000_000_000)
    }

    private static func scene(
        _ prepare: (inout SimulatorOptions) -> Void = { _ in }
    ) throws -> (scene: SimulatorScene, apps: [AppSettings]) {
        let scene = try SimulatorScene {
            $0.managementPort = 0
            prepare(&$0)
        }
        let apps = try [scene.tokenApp("shop"), scene.certificateApp("shop")].map { app in
            var app = app
            app.manageHost = scene.simulator.host
            app.managePort = Int(scene.simulator.managementPort ?? 0)
            return app
        }
        return (scene, apps)
    }

    @Test func `A channel can be created, listed, read and deleted`() throws {
        let (scene, apps) = try Self.scene()
        for app in apps {
            let made = try Self.manage(.create(storesMostRecent: true), app)
            #expect(made.isFine && made.status == 201 && made.storagePolicy == 1)
            #expect(made.app == "shop" && made.environment == .production)
            #expect(made.bundleID == SimulatorCredentials.bundleID && made.requestID?.isEmpty == false)
            let id = try #require(made.channelID)
            let other = try #require(try Self.manage(.create(storesMostRecent: false), app).channelID)
            #expect(try Self.manage(.list, app).channels == [id, other])
            #expect(try Self.manage(.read(channel: id), app).storagePolicy == 1)
            #expect(try Self.manage(.read(channel: other), app).storagePolicy == 0)
            #expect(try Self.manage(.delete(channel: id), app).status == 204)
            #expect(try Self.manage(.delete(channel: other), app).isFine)
            let gone = try Self.manage(.read(channel: id), app)
            #expect(!gone.isFine && gone.status == 400 && gone.reason == .channelNotRegistered)
            #expect(gone.advice?.contains("has no such channel in production") == true)
            #expect(try Self.manage(.list, app).channels == [])
        }
        _ = scene
    }

    /// Apple allows 10,000 channels for a bundle id.
    @Test func `A list of ten thousand channels is read whole, and no more channels can be created`() throws {
        let (scene, apps) = try Self.scene()
        let ids = (0..<10_000).compactMap { _ in
            scene.simulator.channels.make(bundleID: SimulatorCredentials.bundleID, policy: .nothing)
        }
        #expect(try Self.manage(.list, apps[0]).channels == ids)
        let full = try Self.manage(.create(storesMostRecent: false), apps[0])
        #expect(full.reason == .cannotCreateChannelConfig && full.advice?.contains("10,000") == true)
    }

    @Test func `Each refusal has its reason and advice`() throws {
        let (scene, apps) = try Self.scene { $0.withoutBroadcast = ["com.example.plain"] }
        let app = apps[0]
        let plain = try Self.manage(.list, app, bundleID: "com.example.plain")
        #expect(plain.reason == .featureNotEnabled && plain.advice?.contains("com.example.plain") == true)
        #expect(try Self.manage(.read(channel: "?"), app).reason == .badChannelID)
        let suffixed = try Self.manage(.list, app, bundleID: "com.example.app.push-type.liveactivity")
        #expect(suffixed.reason == .topicDisallowed)
        #expect(try Self.manage(.list, apps[1], bundleID: "com.example.other").reason == .topicMismatch)
        // The simulator does not manage channels on this port.
        var elsewhere = app
        elsewhere.managePort = Int(scene.simulator.port)
        let lost = try Self.manage(.create(storesMostRecent: false), elsewhere)
        #expect(lost.status == 404 && lost.reason == .badPath)
        #expect(lost.advice?.contains("does not manage channels") == true)
        scene.simulator.stop()
        #expect(throws: CommandFailure.self) { try Self.manage(.list, app) }
    }

    private static func answer(
        _ status: UInt16, _ body: String, _ operation: ManagementRequest.Operation = .list, channelID: String = ""
    ) throws -> ChannelManagement.Answer {
        try ChannelManagement.Answer(
            ManagementRequest.Answer(status: status, requestID: "", channelID: channelID, body: Array(body.utf8)),
            to: operation, "com.example.app", .withToken())
    }

    @Test func `An unknown reason is passed on, and a success without its content is an error`() throws {
        let tomorrow = try Self.answer(418, #"{"reason":"TeaTime"}"#)
        #expect(tomorrow.reason?.rawValue == "TeaTime" && tomorrow.advice == nil && tomorrow.requestID == nil)
        #expect(try Self.answer(502, "<html>").advice?.contains("try again") == true)
        #expect(try !Self.answer(403, "").isFine)
        // A success must contain the requested value.
        for body in ["", "[]", "{}", #"{"channels":[1]}"#, #"{"channels":"a"}"#] {
            #expect(throws: CommandFailure.self) { try Self.answer(200, body) }
        }
        for body in ["", "{}", #"{"message-storage-policy":"0"}"#, #"{"message-storage-policy":0.5}"#] {
            #expect(throws: CommandFailure.self) { try Self.answer(200, body, .read(channel: "a")) }
        }
        #expect(throws: CommandFailure.self) { try Self.answer(201, "", .create(storesMostRecent: false)) }
        #expect(try Self.answer(200, #"{"more":{},"channels":["a","b"]}"#).channels == ["a", "b"])
        #expect(try Self.answer(201, "", .create(storesMostRecent: false), channelID: "x").channelID == "x")
    }
}

import Foundation
import TestSupport
import Testing

extension EndToEnd.Commands {
    /// Broadcasts to Live Activities: channels by `channels`, records by kcat.
    @Suite(.serialized) struct BroadcastTests {
        /// From the creation of a channel, through Kafka, to what the simulator received on it.
        @Test(.needs(.worker, .broker, .kcat))
        func `A broadcast from kcat`() throws {
            let scene = try Scene("broadcast", partitions: 4)
            let simulator = try scene.startSimulator()
            let managePort = try simulator.managePort()
            scene.configuration.broadcast = "{manage_host: localhost, manage_port: \(managePort)}"
            let worker = try scene.startWorker()
            let made = try scene.channels("create", "--storage", "none", "--format", "json")
            let channel = try #require(try jsonObject(made.text)["channel_id"] as? String, "\(made.text)")

            func produce(_ value: String, _ headers: String...) throws {
                try scene.kcat([value], headers: headers, options: [])
            }
            let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{"score":1}}}"#
            try produce(update, "apns-channel-id=\(channel)", "apns-expiration=0")
            try produce(#"{"channel_id":"\#(channel)","headers":{"apns-expiration":0},"payload":\#(update)}"#)
            // Rejected by the simulator, and invalid to the worker.
            try produce(update, "apns-channel-id=\(channel)", "apns-expiration=4000000000")
            try produce(update, "apns-channel-id=AAECAwQFBgcICQoLDA0ODw==", "apns-expiration=0")
            try produce(update, "apns-channel-id=\(channel)", "apns-topic=com.example.shop.push-type.liveactivity")
            try scene.awaitResults(5)
            try scene.stop(worker)

            let results = try scene.resultObjects()
            let outcomes = results.map { "\($0["outcome"] ?? "") \($0["reason"] ?? "")" }
            #expect(
                outcomes.sorted() == [
                    "accepted ", "accepted ", "invalid TopicDisallowed", "rejected BadExpirationDate",
                    "rejected ChannelNotRegistered",
                ])
            #expect(results.allSatisfy { $0["channel_id"] is String && $0["device_token"] == nil })
            let seen = LocalHTTP.request("\(simulator.control)/channels").body
            #expect(seen == "com.example.shop \(channel) 0 3 2\n", "\(seen)")
        }

        @Test(.needs(.worker))
        func `All commands of channels`() throws {
            let scene = try Scene(withoutBroker: "channels")
            let simulator = try scene.startSimulator("--no-broadcast", "com.example.plain")
            let managePort = try simulator.managePort()
            #expect(simulator.process.text.contains("broadcast: {manage_host: localhost, manage_port: \(managePort)}"))
            scene.configuration.broadcast = "{manage_host: localhost, manage_port: \(managePort)}"
            scene.configuration.apps = scene.configuration.app(named: "plain")
            try scene.write(scene.configuration.text, to: "worker.yaml")
            func channels(_ action: String, _ more: String...) throws -> Scene.Finished {
                try scene.channels([action, "--app", "shop"] + more)
            }
            let place = "com.example.shop app=shop environment=production"

            let made = try channels("create", "--storage", "most-recent")
            let words = made.text.split(separator: " ")
            let id = try #require(words.count > 1 ? String(words[1]) : nil)
            #expect(made.ending == .exited(0) && made.text == "created \(id) \(place) storage=most-recent\n")
            // The same without a file.
            let other = try jsonObject(
                Scene.run(
                    Tool.worker.path(),
                    [
                        "channels", "create", "--storage", "none", "--format", "json", "--key-file",
                        scene.file("AuthKey_SIMULATOR1.p8"), "--key-id", "SIMULATOR1", "--team-id", "TEAM123456",
                        "--bundle-id", "com.example.shop", "--manage-host", "localhost", "--manage-port",
                        "\(managePort)", "--ca-file", scene.file("ca.pem"),
                    ]
                ).text)
            let second = try #require(other["channel_id"] as? String)
            #expect(other["status"] as? Int == 201 && other["message_storage_policy"] as? Int == 0)
            #expect(other["bundle_id"] as? String == "com.example.shop" && other["request_id"] is String)
            #expect(try channels("list").text == "\(id)\n\(second)\n")
            let list = try jsonObject(channels("list", "--format", "json").text)
            #expect(list["channels"] as? [String] == [id, second])
            let read = try channels("read", "--channel", second)
            #expect(read.ending == .exited(0) && read.text == "\(second) \(place) storage=none\n")
            let deleted = try channels("delete", "--channel", id)
            #expect(deleted.ending == .exited(0) && deleted.text == "deleted \(id) \(place)\n")

            let gone = try channels("delete", "--channel", id)
            #expect(gone.ending == .exited(1), "\(gone.text)")
            #expect(gone.text.hasPrefix("apns-worker channels: 400 ChannelNotRegistered: com.example.shop has no such"))
            let refusal = try channels("read", "--channel", id, "--format", "json")
            let object = try jsonObject(refusal.text)
            #expect(refusal.ending == .exited(1) && object["reason"] as? String == "ChannelNotRegistered")
            #expect(object["advice"] is String)
            let plain = try scene.channels("list", "--app", "plain")
            #expect(plain.ending == .exited(1))
            #expect(plain.text.contains("FeatureNotEnabled: broadcast is not set up for com.example.plain"))
            let which = try scene.channels("list")
            #expect(which.ending == .exited(64) && which.text.contains("Give --app NAME, one of shop, plain"))
            try simulator.process.stop()
            let away = try channels("list", "--deadline", "2s")
            #expect(away.ending == .exited(1) && away.text.split(separator: "\n").count == 1, "\(away.text)")
        }
    }
}

extension Scene {
    fileprivate func channels(_ words: String...) throws -> Finished { try channels(words) }

    /// Runs `apns-worker channels` with the worker's file.
    fileprivate func channels(_ words: [String]) throws -> Finished {
        try Self.run(Tool.worker.path(), ["channels"] + words + ["--config", file("worker.yaml")])
    }
}

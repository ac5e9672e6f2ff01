import Foundation
import TestSupport
import Testing

extension EndToEnd.Commands {
    /// Broadcasts to Live Activities: channels by `channels`, records by kcat.
    @Suite(.serialized) struct BroadcastTests {
        private static func run(_ arguments: [String]) throws -> Scene.Finished {
            try Scene.run(Tool.worker.path(), arguments)
        }

        /// From the making of a channel, through Kafka, to what the simulator got on it.
        @Test(.needs(.worker, .broker, .kcat))
        func `A broadcast from kcat`() throws {
            let scene = try Scene("broadcast", partitions: 4)
            let simulator = try scene.startSimulator()
            let managePort = try simulator.managePort()
            scene.configuration.broadcast = "{manage_host: localhost, manage_port: \(managePort)}"
            let worker = try scene.startWorker()
            let channels = ["--config", scene.file("worker.yaml")]
            let made = try Self.run(["channels", "create", "--storage", "none", "--format", "json"] + channels)
            let channel = try #require(try jsonObject(made.text)["channel_id"] as? String, "\(made.text)")

            func produce(_ value: String, _ headers: String...) throws {
                try scene.kcat([value], headers: headers, options: [])
            }
            let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{"score":1}}}"#
            try produce(update, "apns-channel-id=\(channel)", "apns-expiration=0")
            try produce(#"{"channel_id":"\#(channel)","headers":{"apns-expiration":0},"payload":\#(update)}"#)
            // What Apple refuses, by the simulator; and what the worker refuses before.
            try produce(update, "apns-channel-id=\(channel)", "apns-expiration=4000000000")
            try produce(update, "apns-channel-id=AAECAwQFBgcICQoLDA0ODw==", "apns-expiration=0")
            try produce(update, "apns-channel-id=\(channel)", "apns-topic=com.example.shop.push-type.liveactivity")
            try scene.awaitResults(5)
            try scene.stop(worker)

            let results = try scene.resultObjects()
            func count(_ outcome: String, _ reason: String?) -> Int {
                results.count { $0["outcome"] as? String == outcome && $0["reason"] as? String == reason }
            }
            #expect(results.count == 5)
            #expect(count("accepted", nil) == 2 && count("rejected", "BadExpirationDate") == 1)
            #expect(count("rejected", "ChannelNotRegistered") == 1 && count("invalid", "TopicDisallowed") == 1)
            #expect(results.allSatisfy { $0["channel_id"] is String && $0["device_token"] == nil })
            let seen = LocalHTTP.request("\(simulator.control)/channels").body
            #expect(seen == "com.example.shop \(channel) 0 3 2\n", "\(seen)")
        }

        /// There is no broker.
        @Test(.needs(.worker))
        func `All commands of channels`() throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: KafkaBroker.uniqueName("channels"))
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let file = folder.appending(path: "worker.yaml").path
            let simulator = try RunningSimulator(in: folder, ["--no-broadcast", "com.example.plain"])
            defer { try? simulator.process.killNow() }
            let managePort = try simulator.managePort()
            #expect(simulator.process.text.contains("broadcast: {manage_host: localhost, manage_port: \(managePort)}"))
            var configuration = Configuration(servers: "127.0.0.1:1", name: "channels")
            configuration.port = simulator.port
            configuration.broadcast = "{manage_host: localhost, manage_port: \(managePort)}"
            configuration.apps = configuration.app(named: "plain")
            try configuration.text.write(toFile: file, atomically: true, encoding: .utf8)
            func channels(_ action: String, _ more: String...) throws -> Scene.Finished {
                try Self.run(["channels", action, "-c", file, "--app", "shop"] + more)
            }
            let place = "com.example.shop app=shop environment=production"

            let made = try channels("create", "--storage", "most-recent")
            let words = made.text.split(separator: " ")
            let id = try #require(words.count > 1 ? String(words[1]) : nil)
            #expect(made.ending == .exited(0) && made.text == "created \(id) \(place) storage=most-recent\n")
            // The same without a file.
            let flags = [
                "--key-file", folder.appending(path: "AuthKey_SIMULATOR1.p8").path, "--key-id", "SIMULATOR1",
                "--team-id", "TEAM123456", "--bundle-id", "com.example.shop", "--manage-host", "localhost",
                "--manage-port", "\(managePort)", "--ca-file", folder.appending(path: "ca.pem").path,
            ]
            let other = try jsonObject(
                Self.run(["channels", "create", "--storage", "none", "--format", "json"] + flags).text)
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
            let plain = try Self.run(["channels", "list", "-c", file, "--app", "plain"])
            #expect(plain.ending == .exited(1))
            #expect(plain.text.contains("FeatureNotEnabled: broadcast is not set up for com.example.plain"))
            let which = try Self.run(["channels", "list", "-c", file])
            #expect(which.ending == .exited(64) && which.text.contains("say --app NAME, one of shop, plain"))
            try simulator.process.stop()
            let away = try channels("list", "--deadline", "2s")
            #expect(away.ending == .exited(1) && away.text.split(separator: "\n").count == 1, "\(away.text)")
        }
    }
}

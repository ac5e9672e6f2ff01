import TestSupport
import Testing

extension EndToEnd {
    /// Tests of broadcasts to Live Activities. The command `channels` creates channels, and kcat writes records.
    @Suite struct BroadcastTests {
        @Test(.needs(.worker, .broker, .kcat))
        func `A broadcast can be sent with kcat`() throws {
            let scene = try Scene("broadcast")
            let simulator = try scene.startSimulator()
            let managePort = try simulator.process.port(after: "channel management on")
            scene.configuration.broadcast = "{manage_host: localhost, manage_port: \(managePort)}"
            let worker = try scene.startWorker()
            let made = try scene.command("channels create --storage none --format json")
            let channel = try #require(try jsonObject(made.text)["channel_id"] as? String, "\(made.text)")

            func produce(_ value: String, _ headers: String...) throws {
                try scene.kcat([value], headers: headers, options: [])
            }
            let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{"score":1}}}"#
            try produce(update, "apns-channel-id=\(channel)", "apns-expiration=0")
            try produce(#"{"channel_id":"\#(channel)","headers":{"apns-expiration":0},"payload":\#(update)}"#)
            // The simulator rejects the first record, and the worker the second one.
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
        func `Each action of the command channels works`() throws {
            let scene = try Scene(withoutBroker: "channels")
            let simulator = try scene.startSimulator("--no-broadcast", "com.example.plain")
            let managePort = try simulator.process.port(after: "channel management on")
            #expect(simulator.process.text.contains("broadcast: {manage_host: localhost, manage_port: \(managePort)}"))
            scene.configuration.broadcast = "{manage_host: localhost, manage_port: \(managePort)}"
            scene.configuration.apps = scene.configuration.app(named: "plain")
            try scene.configure()
            func channels(_ line: String) throws -> Scene.Finished {
                try scene.command("channels \(line) --app shop")
            }
            let place = "com.example.shop app=shop environment=production"

            let made = try channels("create --storage most-recent").expect(0)
            let words = made.text.split(separator: " ")
            let id = try #require(words.count > 1 ? String(words[1]) : nil)
            #expect(made.text == "created \(id) \(place) storage=most-recent\n")
            // The command also works without a configuration file.
            let other = try jsonObject(
                Scene.worker(
                    "channels create --storage none --format json --key-id SIMULATOR1 --team-id TEAM123456 "
                        + "--bundle-id com.example.shop --manage-host localhost --manage-port \(managePort) "
                        + "--key-file \(scene.file("AuthKey_SIMULATOR1.p8")) --ca-file \(scene.file("ca.pem"))"
                ).text)
            let second = try #require(other["channel_id"] as? String)
            #expect(other["status"] as? Int == 201 && other["message_storage_policy"] as? Int == 0)
            #expect(other["bundle_id"] as? String == "com.example.shop" && other["request_id"] is String)
            #expect(try channels("list").text == "\(id)\n\(second)\n")
            let list = try jsonObject(channels("list --format json").text)
            #expect(list["channels"] as? [String] == [id, second])
            #expect(try channels("read --channel \(second)").expect(0).text == "\(second) \(place) storage=none\n")
            #expect(try channels("delete --channel \(id)").expect(0).text == "deleted \(id) \(place)\n")

            try channels("delete --channel \(id)")
                .expect(1, "apns-worker channels: 400 ChannelNotRegistered: com.example.shop has no such")
            let object = try jsonObject(channels("read --channel \(id) --format json").expect(1).text)
            #expect(object["reason"] as? String == "ChannelNotRegistered" && object["advice"] is String)
            try scene.command("channels list --app plain")
                .expect(1, "FeatureNotEnabled: broadcast is not enabled for com.example.plain")
            try scene.command("channels list").expect(64, "choose one with --app NAME: shop, plain")
            try simulator.process.stop()
            let away = try channels("list --deadline 2s").expect(1)
            #expect(away.text.split(separator: "\n").count == 1, "\(away.text)")
        }
    }
}

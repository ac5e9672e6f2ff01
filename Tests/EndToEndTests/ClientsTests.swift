import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of `Tests/Clients`, which are services in other languages written from the README only, and of the article
    /// about them.
    @Suite struct ClientsTests {
        private static func file(_ path: String) -> String { Repository.path("Tests/Clients/\(path)") }

        private static func article(_ name: String) -> String { "Sources/Worker/Worker.docc/\(name).md" }

        // MARK: A service in each language

        @Test(
            .needs(.worker, .broker, .python, .kcat, .jq),
            arguments: ["python/shop.py", "kcat/shop.sh"])
        func `A service in Python or a shell script gets its results`(path: String) throws {
            try run(path.hasSuffix(".sh") ? "sh" : Tool.python.path(), [Self.file(path)])
        }

        @Test(
            .ownBroker, .needs(.worker, .broker, .kcat, .javaClient))
        func `A service in Java gets its results`() throws {
            let options = ["-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", "\(KafkaBroker.home ?? "")/libs/*"]
            try run(Tool.javaClient.path(), options + [Self.file("java/Shop.java")])
        }

        @Test(
            .needsInstalled(.go, "golang-go golang-github-confluentinc-confluent-kafka-go-dev"),
            .needs(.worker, .broker, .kcat))
        func `A service in Go gets its results`() throws {
            let folder = URL(fileURLWithPath: try Tool.worker.path()).deletingLastPathComponent().appending(path: "go")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let program = folder.appending(path: "shop").path
            // Debian's packages contain sources in this place. The program is built once.
            let environment = [
                "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": folder.appending(path: "cache").path,
            ]
            let built = try ChildProcess.run(
                Tool.go.path(), ["build", "-o", program, Self.file("go/shop.go")], environment: environment,
                within: 300)
            try #require(built.ending == .exited(0), "\(built.text)")
            try run(program, [])
        }

        /// `Tests/Library` is a separate package. It produces both forms with PushRecords, and reads results and dead
        /// tokens. The first build takes about 20 s. Its products are kept beside those of the tests.
        @Test(.needs(.worker, .broker, .swift))
        func `A separate Swift package can use the library`() throws {
            let scene = try Scene("library", partitions: 2)
            let scratch = URL(fileURLWithPath: try Tool.worker.path()).deletingLastPathComponent()
                .appending(path: "library").path
            try ChildProcess.run(
                "swift",
                [
                    "build", "--package-path", Repository.path("Tests/Library"), "--scratch-path", scratch,
                    "--disable-sandbox",
                    "--disable-index-store", "--quiet",
                ], within: 900
            ).expect(0)
            let worker = try scene.startWorker()
            let names = scene.configuration
            try ChildProcess.run(
                "\(scratch)/debug/shop", [scene.servers, names.requests, names.results, names.unregistered]
            ).expect(0, "forgotten: fa174101…, gone since 1600000000000", "all is well")
            try scene.stop(worker)
        }

        /// Runs a shop's program beside a worker and another service. The program must find its own results and delete
        /// its dead device.
        private func run(_ program: String, _ arguments: [String]) throws {
            let scene = try Scene("shop")
            let worker = try scene.startWorker()
            try scene.send(to: ["00000009" + String(repeating: "0", count: 56)])
            // The result of a broadcast has no device token.
            try scene.kcat([#"{"channel_id":"dHN0LXNyY2gtY2hubA==","payload":{"aps":{}}}"#], options: [])
            try scene.awaitResults(2)
            let topics = [scene.configuration.requests, scene.configuration.results, scene.configuration.unregistered]
            try ChildProcess.run(program, arguments + [scene.servers] + topics).expect(
                0, "unregistered Unregistered fa174101", "forgotten: fa174101…, gone since 16", "all is well")
            #expect(try scene.resultsWithKcat().count == 7)
            try scene.stop(worker)
        }

        // MARK: Articles

        /// The pipe in the article for users of pusher converts pusher's messages to requests.
        @Test(.needs(.worker, .broker, .kcat, .jq))
        func `pusher's messages are translated`() throws {
            let pipe = try #require(try Repository.blocks("sh", of: Self.article("ComingFromPusher")).last)
            let scene = try Scene("pusher", partitions: 2)
            let worker = try scene.startWorker()
            let topic = "\(scene.name).push-game_apns-single"
            try scene.create(topic, partitions: 1)
            func token(_ prefix: String) -> String { prefix + String(repeating: "0", count: 56) }
            let messages = [
                #"{"DeviceToken":"\#(token("00000001"))","Payload":{"aps":{"alert":"Hi"}},"push_expiry":0}"#,
                #"{"DeviceToken":"\#(token("00000002"))","Payload":{"aps":{}},"metadata":{},"collapse_id":"a"}"#,
                #"{"DeviceToken":"\#(token("00000003"))","Payload":{"aps":{}},"push_expiry":1500000000999}"#,
                #"{"DeviceToken":"\#(token("fa174101"))","Payload":{"aps":{}},"push_expiry":4000000000000}"#,
            ]
            try scene.kcat(messages, to: topic, options: [])
            // The pipe is the article's, with other names and an option that makes it end.
            let line = pipe.replacing("localhost:9092", with: scene.servers)
                .replacing("push-game_apns-single", with: topic).replacing("-G translate", with: "-e -G \(scene.name)")
                .replacing("apns.requests", with: scene.configuration.requests).replacing("\"game\"", with: "\"shop\"")
            try ChildProcess.run("sh", ["-c", line]).expect(0)
            try scene.awaitResults(4)
            let outcomes = try scene.resultsWithKcat().map { $0.prefix(8) + $0.split(separator: " ")[1].prefix(13) }
            #expect(
                outcomes.sorted() == [
                    "00000001outcome=accep", "00000002outcome=accep", "00000003outcome=expir", "fa174101outcome=unreg",
                ])
            try scene.stop(worker)
        }

        /// The line in the article about replays finds the result of a replayed request, and ends.
        @Test(.needs(.worker, .broker, .kcat))
        func `The result of a replayed request is found`() throws {
            let article = try Repository.text(Self.article("Replay"))
            let line = try #require(article.split(separator: "```\n").first { $0.hasPrefix("kcat ") })
            let scene = try Scene("replayed", partitions: 1)
            let worker = try scene.startWorker()
            let header = "push-replay-of=apns.requests/3/1042/7"
            try scene.send(to: deviceTokens(1), headers: [header])
            try scene.awaitResults(1, of: worker)
            let command = line.replacing("localhost:9092", with: scene.servers)
                .replacing("apns.results", with: scene.configuration.results)
            try ChildProcess.run("sh", ["-c", String(command)]).expect(0, header, deviceTokens(1)[0])
            try scene.stop(worker)
        }

        @Test func `The code of the article is part of the programs`() throws {
            let programs = ["python": "python/shop.py", "java": "java/Shop.java", "go": "go/shop.go"]
            for (language, program) in programs {
                let code = try Repository.text("Tests/Clients/\(program)").split(separator: "\n")
                let lines = Set(code.map { $0.trimmingCharacters(in: .whitespaces) })
                let shown = try Repository.blocks(language, of: Self.article("AnyLanguage"))
                    .flatMap { $0.split(separator: "\n") }.map { $0.trimmingCharacters(in: .whitespaces) }
                #expect(!shown.isEmpty, "\(language)")
                for line in shown where !lines.contains(line) {
                    Issue.record("\(program) has no line \(line)")
                }
            }
        }
    }
}

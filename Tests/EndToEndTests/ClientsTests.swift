import Foundation
import TestSupport
import Testing

extension EndToEnd.Services {
    /// `Tests/Clients`: services in other languages, written from the README only, and the article about them.
    @Suite(.serialized) struct ClientsTests {
        private static func file(_ path: String) -> String {
            URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../Clients/\(path)")
                .standardizedFileURL.path
        }

        // MARK: A service in each language

        @Test(
            .needs(.worker, .broker, .python, .kcat, .jq),
            arguments: ["python/shop.py", "kcat/shop.sh"])
        func `A service in Python and one in a shell`(path: String) throws {
            try run(path.hasSuffix(".sh") ? "sh" : Tool.python.path(), [Self.file(path)])
        }

        @Test(.needsJavaClient, .needs(.worker, .broker, .kcat))
        func `A service in Java`() throws { try run(Tool.javaClient.path(), Self.java([Self.file("java/Shop.java")])) }

        @Test(.needsGo, .needs(.worker, .broker, .kcat))
        func `A service in Go`() throws {
            let folder = URL(fileURLWithPath: try Tool.worker.path()).deletingLastPathComponent().appending(path: "go")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let program = folder.appending(path: "shop").path
            // Debian's packages are sources at this place, of which the program is built once.
            let environment = [
                "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": folder.appending(path: "cache").path,
            ]
            let built = try Scene.run(
                Tool.go.path(), ["build", "-o", program, Self.file("go/shop.go")], environment: environment,
                within: 300)
            try #require(built.ending == .exited(0), "\(built.text)")
            try run(program, [])
        }

        private static func java(_ arguments: [String]) -> [String] {
            ["-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", "\(KafkaBroker.home ?? "")/libs/*"] + arguments
        }

        /// Runs a shop beside a worker and another service. It must find its own results and forget its dead device.
        private func run(_ program: String, _ arguments: [String]) throws {
            let scene = try Scene("shop", partitions: 4)
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.send(to: ["00000009" + String(repeating: "0", count: 56)])
            // A broadcast's result names no device.
            try scene.kcat([#"{"channel_id":"dHN0LXNyY2gtY2hubA==","payload":{"aps":{}}}"#], options: [])
            try scene.awaitResults(2)
            let topics = [scene.configuration.requests, scene.configuration.results, scene.configuration.unregistered]
            let ended = try Scene.run(program, arguments + [scene.servers] + topics)
            #expect(ended.ending == .exited(0), "\(ended.text)")
            #expect(ended.text.contains("unregistered Unregistered fa174101"), "\(ended.text)")
            #expect(ended.text.contains("forgotten: fa174101…, gone since 16"), "\(ended.text)")
            #expect(ended.text.contains("all is well"), "\(ended.text)")
            #expect(try scene.resultsWithKcat().count == 7)
            try scene.stop(worker)
        }

        // MARK: Partitions

        /// One device has one partition whichever client writes, as long as all hash by murmur2. The default of
        /// librdkafka differs from Java's client.
        @Test(.needsJavaClient, .needs(.broker, .python, .kcat))
        func `The same key goes to the same partition`() throws {
            let broker = try #require(KafkaBroker.shared)
            let keys = (0..<200).map { hex($0 * 2_654_435_761, digits: 64) }
            let lines = FileManager.default.temporaryDirectory.appending(path: KafkaBroker.uniqueName("keys")).path
            try keys.map { "\($0):{}\n" }.joined().write(toFile: lines, atomically: true, encoding: .utf8)
            defer { try? FileManager.default.removeItem(atPath: lines) }

            func partitions(_ program: String, _ arguments: (String) -> [String], input: String? = nil) throws
                -> [String: Int]
            {
                let topic = try broker.newTopic("partitions", partitions: 8)
                let writer = try ChildProcess(program, arguments(topic))
                if let input { writer.write(input) }
                writer.closeInput()
                #expect(try writer.wait() == .exited(0), "\(writer.text)")
                let read = try Scene.run(
                    Tool.kcat.path(),
                    ["-C", "-q", "-e", "-b", broker.bootstrapServers, "-t", topic, "-o", "beginning", "-f", "%k %p\n"])
                let pairs = read.text.split(separator: "\n").map { $0.split(separator: " ") }
                let found = try Dictionary(
                    pairs.map { (String($0[0]), try #require(Int($0[1]))) }, uniquingKeysWith: { max($0, $1) })
                #expect(Set(found.keys) == Set(keys), "\(writer.text)")
                return found
            }
            func kcat(_ more: String...) throws -> [String: Int] {
                try partitions(
                    Tool.kcat.path(),
                    { ["-P", "-b", broker.bootstrapServers, "-t", $0, "-K:", "-l"] + more + [lines] })
            }
            func python(_ settings: String) throws -> [String: Int] {
                let program = """
                    import sys
                    from confluent_kafka import Producer
                    producer = Producer({"bootstrap.servers": sys.argv[1], \(settings)})
                    for line in open(sys.argv[3]):
                        producer.produce(sys.argv[2], key=line.split(":")[0], value=b"{}")
                    sys.exit(producer.flush(30))
                    """
                return try partitions(
                    Tool.python.path(), { ["-c", program, broker.bootstrapServers, $0, lines] })
            }

            let java = try partitions(
                Tool.javaClient.path(),
                {
                    Self.java([
                        "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", broker.bootstrapServers,
                        "--topic", $0, "--property", "parse.key=true", "--property", "key.separator=:",
                    ])
                }, input: keys.map { "\($0):{}\n" }.joined())
            #expect(Set(java.values) == Set(0..<8))
            #expect(try kcat("-X", "partitioner=murmur2_random") == java)
            #expect(try python(#""partitioner": "murmur2_random""#) == java)
            let librdkafka = try kcat("-X", "partitioner=consistent_random")
            #expect(try kcat() == librdkafka)
            #expect(try python("") == librdkafka)
            let agreeing = keys.filter { java[$0] == librdkafka[$0] }.count
            print("by librdkafka's own partitioner \(agreeing) of \(keys.count) keys are where Java has them")
            #expect(agreeing < keys.count / 2)
        }

        // MARK: CloudEvents, and serializers that add something

        /// CloudEvents work in binary mode, where the payload is the value. In structured mode the whole event is taken
        /// for the payload. Bytes that a serializer puts before a value or around a key make a dead letter.
        @Test(.needs(.worker, .broker, .kcat))
        func `CloudEvents and serializers`() throws {
            let scene = try Scene("events", partitions: 1)
            scene.configuration.resultKeys = "copy_headers: [ce_id]"
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            func token(_ number: Int) -> String { hex(number, digits: 64) }
            let payload = #"{"aps":{"alert":"Hi"}}"#
            func produce(key: String, _ value: String, _ headers: String...) throws {
                try scene.write(value, to: "value.bin")
                let ended = try Scene.run(
                    Tool.kcat.path(),
                    ["-P", "-b", scene.servers, "-t", scene.configuration.requests, "-k", key]
                        + headers.flatMap { ["-H", $0] } + [scene.file("value.bin")])
                #expect(ended.ending == .exited(0), "\(ended.text)")
            }
            try produce(
                key: token(1), payload, "ce_specversion=1.0", "ce_id=A234-1234", "ce_type=com.example.order.shipped",
                "ce_source=/orders", "content-type=application/json")
            try produce(
                key: token(2),
                #"{"specversion":"1.0","id":"A235","type":"com.example.order","source":"/orders","data":\#(payload)}"#,
                "content-type=application/cloudevents+json")
            try produce(key: token(3), "\0\0\0\0\u{7}" + payload)
            try produce(key: "\"\(token(4))\"", payload)
            try scene.settle(worker)
            let results = try scene.resultsWithKcat()
            #expect(results.count == 2)
            #expect(results.contains { $0.hasPrefix("\(token(1)) outcome=accepted") && $0.contains("ce_id=A234-1234") })
            #expect(results.contains { $0.hasPrefix("\(token(2)) outcome=accepted") && !$0.contains("ce_id") })
            let letters = try scene.records(of: scene.configuration.deadLetters, "%k %h")
            #expect(letters.count == 2)
            #expect(letters.contains { $0.hasPrefix("\(token(3)) push-dlq-reason=not-json") }, "\(letters)")
            #expect(letters.contains { $0.hasPrefix("\"\(token(4))\" push-dlq-reason=no-device-token") }, "\(letters)")
            try scene.stop(worker)
        }

        // MARK: What the articles say

        /// The pipe in the article for users of pusher makes requests of pusher's messages.
        @Test(.needs(.worker, .broker, .kcat, .jq))
        func `pusher's messages are translated`() throws {
            let article = try String(
                contentsOfFile: Self.file("../../Sources/Worker/Worker.docc/ComingFromPusher.md"), encoding: .utf8)
            let pipe = try #require(article.split(separator: "```sh\n").last?.split(separator: "```").first)
            let scene = try Scene("pusher", partitions: 2)
            _ = try scene.startSimulator()
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
            // As in the article, except for the names, and that it ends.
            let line = pipe.replacing("localhost:9092", with: scene.servers)
                .replacing("push-game_apns-single", with: topic).replacing("-G translate", with: "-e -G \(scene.name)")
                .replacing("apns.requests", with: scene.configuration.requests).replacing("\"game\"", with: "\"shop\"")
            let translated = try Scene.run("sh", ["-c", String(line)])
            #expect(translated.ending == .exited(0), "\(translated.text)")
            try scene.awaitResults(4)
            let outcomes = try scene.resultsWithKcat().map { $0.prefix(8) + $0.split(separator: " ")[1].prefix(13) }
            #expect(
                outcomes.sorted() == [
                    "00000001outcome=accep", "00000002outcome=accep", "00000003outcome=expir", "fa174101outcome=unreg",
                ])
            try scene.stop(worker)
        }

        /// Each line of code in the article stands in the program of its language.
        @Test func `The article shows the programs`() throws {
            let article = try String(
                contentsOfFile: Self.file("../../Sources/Worker/Worker.docc/AnyLanguage.md"), encoding: .utf8)
            let programs = ["python": "python/shop.py", "java": "java/Shop.java", "go": "go/shop.go"]
            for (language, program) in programs {
                let code = try String(contentsOfFile: Self.file(program), encoding: .utf8)
                let lines = Set(code.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) })
                let shown = article.components(separatedBy: "```\(language)\n").dropFirst()
                    .flatMap { $0.components(separatedBy: "```")[0].split(separator: "\n") }
                    .map { $0.trimmingCharacters(in: .whitespaces) }
                #expect(!shown.isEmpty, "\(language)")
                for line in shown where !lines.contains(line) {
                    Issue.record("\(program) has no line \(line)")
                }
            }
        }
    }
}

extension Trait where Self == ConditionTrait {
    fileprivate static var needsJavaClient: Self {
        .enabled(if: Tool.javaClient.place != nil, "needs KAFKA_HOME, whose libs have Kafka's own client, and java")
    }

    fileprivate static var needsGo: Self {
        let packages = "golang-go golang-github-confluentinc-confluent-kafka-go-dev"
        return .enabled(
            if: Tool.go.place != nil, "Go or its client is not installed (by hand: apt-get install \(packages))")
    }
}

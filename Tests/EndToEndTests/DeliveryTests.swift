import Foundation
import TestSupport
import Testing

extension EndToEnd.Deliveries {
    @Suite(.serialized) struct DeliveryTests {
        /// Both forms, fan-outs up to 10,000, each of Apple's 32 reasons, 1 % malformed.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func everyRecordEndsInOneResultForEachNotificationOrOneDeadLetter() throws {
            let scene = try Scene("delivery")
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.produce(Scene.records, "--prefixes", scene.prefixes())
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control)

            // The audit itself: with one result withheld, it must find that.
            let withheld = try scene.tryBooks(
                "audit", scene.auditArguments + ["--simulator", simulator.control, "--withhold", "77"])
            #expect(withheld.ending == .exited(1))
            #expect(withheld.text.contains("FOUND 1 x LOST: no result"))
            try simulator.process.stop()
        }

        /// Some requests make the server close, cut or reset its connections, or leave them unanswered: all are resent,
        /// and what may have been accepted twice says so.
        @Test(.needs(.worker, .broker, .python), .timeLimit(.minutes(5)))
        func lostConnectionsLoseNothing() throws {
            let scene = try Scene("faults")
            let simulator = try scene.startSimulator()
            scene.configuration.more = "delivery: {response_timeout: 2s}"
            let worker = try scene.startWorker()
            try scene.produce(max(200, Scene.records / 20), "--prefixes", scene.prefixes(), "--faults", "--calm")
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control, "--doubtful")
            try simulator.process.stop()
        }

        /// nghttp2's own server knows some device tokens and answers 404 to others.
        @Test(.needs(.worker, .broker, .python, .nghttpd, .openssl), .timeLimit(.minutes(5)))
        func aServerThatIsNotOursGetsWhatItUnderstands() throws {
            let scene = try Scene("foreign")
            let server = try scene.startForeignServer(knownTokens: max(10, Scene.records / 20))
            let worker = try scene.startWorker()
            try scene.produce(Scene.records, "--known", scene.file("known.txt"))
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit()
            try server.stop()
        }

        /// The README's smallest producer and consumer: kcat, and nothing else.
        @Test(.needs(.worker, .broker, .python, .kcat), .timeLimit(.minutes(2)))
        func kcatIsEnough() throws {
            let scene = try Scene("kcat")
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            let tokens = (0..<1000).map { hex($0, digits: 8) + String(repeating: "c4", count: 28) }
            try scene.write(
                tokens.map { #"\#($0):{"aps":{"alert":"Hi"}}"# }.joined(separator: "\n") + "\n", to: "lines.txt")
            try scene.produceWithKcat("lines.txt")
            try scene.settle(worker)
            try scene.stop(worker)
            let lines = try scene.resultsWithKcat()
            #expect(lines.map { String($0.prefix { $0 != " " }) }.sorted() == tokens)
            #expect(lines.allSatisfy { $0.hasSuffix(" outcome=accepted") }, "\(lines.first ?? "no result")")
            try simulator.process.stop()
        }
    }
}

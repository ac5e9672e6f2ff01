import Foundation
import TestSupport
import Testing

extension EndToEnd.Deliveries {
    @Suite(.serialized) struct DeliveryTests {
        /// Both forms, fan-outs (up to 10,000 in a long run), each of Apple's 32 reasons, 1 % malformed.
        @Test(.needs(.worker, .broker, .python))
        func `Every record ends in one result for each notification or one dead letter`() throws {
            let scene = try Scene("delivery")
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.produce(Scene.records, "--prefixes", scene.prefixes())
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control)

            // The audit itself: with one result withheld, it must find that.
            let withheld = try scene.tryBooks("audit", ["--simulator", simulator.control, "--withhold", "77"])
            #expect(withheld.ending == .exited(1))
            #expect(withheld.text.contains("FOUND 1 x LOST: no result"))
        }

        /// Books that agree are altered, one fault at a time.
        @Test(.needs(.python))
        func `The audits find each kind of fault`() throws {
            let ended = try Scene.run(Tool.python.path(), [Scene.program, "selftest"])
            #expect(ended.ending == .exited(0), "\(ended.text)")
        }

        /// Some requests make the server close, cut or reset its connections, or leave them unanswered. All are sent
        /// again, and what may have been accepted twice is marked.
        @Test(.needs(.worker, .broker, .python))
        func `Lost connections lose nothing`() throws {
            let scene = try Scene("faults")
            let simulator = try scene.startSimulator()
            scene.configuration.more = "delivery: {response_timeout: 2s}"
            let worker = try scene.startWorker()
            try scene.produce(max(600, Scene.records / 20), "--prefixes", scene.prefixes(), "--faults", "--calm")
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control, "--doubtful")
        }

        /// nghttp2's own server knows some device tokens and answers 404 to others.
        @Test(.needs(.worker, .broker, .python, .nghttpd, .openssl))
        func `A server of another project gets what it understands`() throws {
            let scene = try Scene("foreign")
            try scene.startForeignServer(knownTokens: Scene.records / 20)
            let worker = try scene.startWorker()
            try scene.produce(Scene.records / 4, "--known", scene.file("known.txt"))
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit()
        }

        /// The README's smallest producer and consumer.
        @Test(.needs(.worker, .broker, .kcat))
        func `kcat is enough`() throws {
            let scene = try Scene("kcat")
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            let tokens = deviceTokens(1_000)
            try scene.send(to: tokens)
            try scene.settle(worker)
            try scene.stop(worker)
            let lines = try scene.resultsWithKcat()
            #expect(lines.map { String($0.prefix { $0 != " " }) }.sorted() == tokens)
            #expect(lines.allSatisfy { $0.hasSuffix(" outcome=accepted") }, "\(lines.first ?? "no result")")
        }

        /// The worker is stopped or killed midway, and another one takes over.
        @Test(.needs(.worker, .broker, .python), arguments: ["killed", "stopped"])
        func `Nothing is lost when the worker ends midway`(_ how: String) throws {
            let scene = try Scene(how)
            let simulator = try scene.startSimulator()
            let records = Scene.records / 2
            try scene.produce(records, "--prefixes", scene.prefixes(), "--calm")
            for share in [0.2, 0.5] {
                let worker = try scene.startWorker()
                try scene.awaitResults(Int(share * Double(records)))
                if how == "stopped" {
                    try scene.stop(worker)
                } else {
                    try worker.killNow()
                }
            }
            let worker = try scene.startWorker()
            try scene.settle(worker)
            try scene.stop(worker)
            // After an orderly stop nothing is sent twice.
            try scene.audit("--simulator", simulator.control, how == "stopped" ? "--restarted" : "--crashed")
        }
    }
}

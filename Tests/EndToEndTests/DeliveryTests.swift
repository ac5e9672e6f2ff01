import TestSupport
import Testing

extension EndToEnd {
    @Suite struct DeliveryTests {
        /// The records have both forms, fan-outs (up to 10,000 in a long run), and each of Apple's 32 reasons. 1 % are
        /// malformed.
        @Test(.needs(.worker, .broker, .python))
        func `Every record ends in one result for each notification or one dead letter`() throws {
            let scene = try Scene("delivery")
            let simulator = try scene.startSimulator()
            let worker = try scene.startWorker()
            try scene.produce(Scene.records, "--prefixes", scene.prefixes())
            try scene.finish(worker)
            try scene.audit("--simulator", simulator.control)

            // The audit itself is tested: it must detect one withheld result.
            try scene.tryBooks("audit", ["--simulator", simulator.control, "--withhold", "77"])
                .expect(1, "FOUND 1 x LOST: no result")
        }

        /// Correct books are altered, one fault at a time.
        @Test(.needs(.python))
        func `The audits detect each kind of fault`() throws {
            let ended = try Scene.run(Tool.python.path(), [Scene.book("books.py"), "selftest"])
            ended.expect(0)
        }

        /// Some requests make the server close, cut or reset its connections, or not answer. All are sent again, and
        /// those that may have been accepted twice are marked as in doubt.
        @Test(.needs(.worker, .broker, .python))
        func `Lost connections lose no notification`() throws {
            let scene = try Scene("faults")
            let simulator = try scene.startSimulator()
            scene.configuration.more = "delivery: {response_timeout: 2s}"
            let worker = try scene.startWorker()
            try scene.produce(max(600, Scene.records / 20), "--prefixes", scene.prefixes(), "--faults", "--calm")
            try scene.finish(worker)
            try scene.audit("--simulator", simulator.control, "--doubtful")
        }

        /// The worker is stopped or killed midway, and another one takes over.
        @Test(.needs(.worker, .broker, .python), arguments: ["killed", "stopped"])
        func `No notification is lost when the worker ends midway`(_ how: String) throws {
            let scene = try Scene(how)
            let simulator = try scene.startSimulator()
            let records = Scene.records / 2
            try scene.produce(records, "--prefixes", scene.prefixes(), "--calm")
            let first = try scene.startWorker()
            try scene.awaitResults(records / 3)
            if how == "stopped" { try scene.stop(first) } else { try first.killNow() }
            try scene.finish(scene.startWorker())
            // After an orderly stop nothing is sent twice.
            try scene.audit("--simulator", simulator.control, how == "stopped" ? "--restarted" : "--crashed")
        }
    }
}

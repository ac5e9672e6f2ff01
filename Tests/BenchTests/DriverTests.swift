import TestSupport
import Testing

@testable import apns_bench

/// The driver in Python has its tests beside this file. Here is what it shares with the program in Swift.
@Suite(.waiting) struct DriverTests {
    private static let python = Python.place(with: ["json"])

    @Test(.enabled(if: python != nil, "missing: a Python (Docker/setup --tests)"))
    func `The driver's own tests pass`() throws {
        let tests = Repository.path("Tests/BenchTests/driver_tests.py")
        let ended = try ChildProcess.run(try #require(Self.python), [tests])
        #expect(ended.ending == .exited(0), "\(ended.text)")
    }

    /// The parts take the payload of the topics.
    @Test(.enabled(if: python != nil, "missing: a Python (Docker/setup --tests)"))
    func `Payloads are the same in both languages`() throws {
        let driver = Repository.path("Sources/apns-bench/driver")
        let script = """
            import os, sys; os.environ["APNS_BENCH"] = ""; sys.path.insert(0, "\(driver)"); import stage
            print(stage.payload(12))
            """
        let ended = try ChildProcess.run(try #require(Self.python), ["-c", script])
        try #require(ended.ending == .exited(0), "\(ended.text)")
        #expect(ended.text == Traffic.payload(12) + "\n")
    }
}

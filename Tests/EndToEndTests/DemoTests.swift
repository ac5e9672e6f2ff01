import TestSupport
import Testing

extension EndToEnd.Starts {
    /// `apns-worker demo`: no broker is needed, it has one of its own.
    @Suite(.serialized) struct DemoTests {
        @Test(.needs(.worker), .timeLimit(.minutes(3)))
        func `The books agree`() throws {
            let demo = try ChildProcess(Tool.worker.path(), ["demo", "--count", "20000"])
            #expect(try demo.wait(seconds: 150) == .exited(0), "\(demo.text)")
            #expect(demo.text.contains("The books agree."))
            #expect(demo.text.contains("20,000 of 20,000 settled"))
            // Nothing is warned of, and no line of progress says what the one before said.
            let lines = demo.text.split(separator: "\n")
            #expect(!lines.contains { $0.contains(" warning ") }, "\(demo.text)")
            #expect(!zip(lines, lines.dropFirst()).contains { $0 == $1 }, "\(demo.text)")
        }

        @Test(.needs(.worker), .timeLimit(.minutes(3)))
        func `A withheld result is noticed`() throws {
            let demo = try ChildProcess(Tool.worker.path(), ["demo", "--count", "3000", "--withhold", "7"])
            #expect(try demo.wait(seconds: 150) == .exited(1), "\(demo.text)")
            #expect(demo.text.contains("The books differ in 1:"))
        }

        @Test(.needs(.worker), .timeLimit(.minutes(3)))
        func `Faults are survived`() throws {
            let demo = try ChildProcess(
                Tool.worker.path(),
                ["demo", "--count", "10000", "--faults", "goaway@1000,cut-inside@3000,refuse-stream@700,Shutdown@2500"])
            #expect(try demo.wait(seconds: 150) == .exited(0), "\(demo.text)")
            #expect(demo.text.contains("The books agree."))
        }
    }
}

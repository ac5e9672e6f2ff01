import TestSupport
import Testing

extension EndToEnd {
    /// Tests of `apns-worker demo`, which needs no broker because it includes one.
    @Suite struct DemoTests {
        @Test(.needs(.worker))
        func `The books of the demo agree`() throws {
            let demo = try ChildProcess(Tool.worker.path(), ["demo", "--count", "10000"])
            #expect(try demo.wait() == .exited(0), "\(demo.text)")
            #expect(demo.text.contains("The counts agree."))
            #expect(demo.text.contains("10,000 of 10,000 settled"))
            // There is no warning, and no line of progress repeats the one before.
            let lines = demo.text.split(separator: "\n")
            #expect(!lines.contains { $0.contains(" warning ") }, "\(demo.text)")
            #expect(!zip(lines, lines.dropFirst()).contains { $0 == $1 }, "\(demo.text)")
        }

        @Test(
            .needs(.worker),
            arguments: [
                ("3000 --withhold 7", 1, "The counts differ. Differences: 1"),
                ("5000 --faults goaway@1000,cut-inside@3000,refuse-stream@700,Shutdown@2500", 0, "The counts agree."),
            ] as [(String, Int32, String)])
        func `The demo detects a withheld result, and its faults lose no notification`(
            options: String, status: Int32, text: String
        )
            throws
        {
            let demo = try ChildProcess(
                Tool.worker.path(), ["demo", "--count"] + options.split(separator: " ").map(String.init))
            #expect(try demo.wait() == .exited(status), "\(demo.text)")
            #expect(demo.text.contains(text))
        }
    }
}

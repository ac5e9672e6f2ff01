import TestSupport
import Testing

extension EndToEnd.Commands {
    @Suite struct AuditTests {
        /// Books that agree are altered, one fault at a time; the audit must find each.
        @Test(.needs(.python))
        func theAuditFindsEachKindOfFault() throws {
            let ended = try Scene.run(Tool.python.path(), [Scene.program, "selftest"])
            #expect(ended.ending == .exited(0), "\(ended.text)")
        }
    }
}

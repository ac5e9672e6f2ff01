import Testing

@testable import Worker

struct CrashHistoryTests {
    private static func place(_ offset: Int64) -> CrashHistory.Place {
        CrashHistory.Place(topic: "apns.requests", partition: 3, offset: offset)
    }

    /// Crashes by SIGSEGV, with the offsets that the threads were working on.
    private static func history(_ deaths: [[Int64]]) -> CrashHistory {
        CrashHistory(
            total: deaths.count,
            deaths: deaths.map { CrashHistory.Death(signal: 11, places: $0.map { place($0) }) })
    }

    @Test(
        arguments: [
            ([[7]], []), ([[7], [8]], []), ([[7], []], []), ([[7], [7]], [7]), ([[7], [], [8], [7]], [7]),
            // A signal does not identify the thread that caused it. The record that both crashes have in common is the
            // cause.
            ([[7, 20], [31, 7]], [7]), ([[7, 20], [7, 20]], [7, 20]), ([[7], [7], [8], [8]], [7, 8]),
            // Both threads worked on one record.
            ([[7, 7]], []), ([[7, 7], [7, 7]], [7]),
        ] as [([[Int64]], [Int64])])
    func `The second crash at a record condemns that record and no other`(deaths: [[Int64]], condemned: [Int64]) {
        let history = Self.history(deaths)
        #expect(history.total == deaths.count)
        #expect(history.condemned == Set(condemned.map { Self.place($0) }))
    }

    @Test func `A crash is described by its signal and its record`() {
        let deaths = Self.history([[1_234], []]).deaths
        #expect(deaths.map(\.signalName) == ["SIGSEGV", "SIGSEGV"])
        #expect(deaths.map(\.record) == ["apns.requests/3/1234", "no known record"])
        #expect(
            [6, 9, 4, 7].map { CrashHistory.Death(signal: $0, places: []).signalName } == [
                "SIGABRT", "SIGKILL", "SIGILL", "SIGBUS",
            ])
    }

    @Test func `The crash history is empty without a supervisor`() {
        #expect(CrashHistory.ofPage == CrashHistory())
    }

    @Test func `Restarts back off while workers crash soon after their start`() {
        var backoff = RestartBackoff()
        let delays = (0..<8).map { _ in backoff.delayMs(livedMs: 100) }
        #expect(delays == [0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
        #expect(backoff.delayMs(livedMs: RestartBackoff.soundMs) == 0)
        #expect(backoff.delayMs(livedMs: 100) == 1_000)
    }
}

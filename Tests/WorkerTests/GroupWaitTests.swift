import Testing

@testable import Worker

/// Waits for a group's coordinator.
struct GroupWaitTests {
    @Test func `A wait is said once, where it lasts`() {
        var wait = GroupWait()
        func isSaid(_ nowNs: Int64) -> Bool { wait.mustSay(nowNs: nowNs) }
        #expect(!isSaid(.max))
        wait.begin(nowNs: 1_000)
        wait.begin(nowNs: 2_000)
        #expect(!isSaid(999 + GroupWait.quietNs))
        #expect(isSaid(1_000 + GroupWait.quietNs))
        #expect(!isSaid(.max))
        wait.begin(nowNs: 5_000)
        #expect(!isSaid(.max), "it is the same wait")
        wait.end()
        wait.begin(nowNs: 6_000)
        #expect(!isSaid(5_999 + GroupWait.quietNs))
        #expect(isSaid(6_000 + GroupWait.quietNs))
    }
}

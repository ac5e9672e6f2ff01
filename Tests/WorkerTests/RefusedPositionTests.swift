import Kafka
import Testing

@testable import Worker

/// Where reading goes on after a broker refused an offset, and what is named of it.
struct RefusedPositionTests {
    private static let second: Int64 = 1_000_000_000

    @Test func `Nothing is read before the log's leader was asked, and who does not answer is asked again`() {
        var refused = RefusedPosition(nowNs: 0)
        #expect(refused.isAsking && refused.nextNs == 0)
        #expect(refused.step(at: 100, position: 100, nowNs: 0) == .wait)
        #expect(refused.mustAsk(nowNs: 0) == true)
        #expect(refused.mustAsk(nowNs: 4 * Self.second) == false)
        refused.refusedAgain(nowNs: 4 * Self.second)
        #expect(refused.mustAsk(nowNs: 4 * Self.second) == false, "one question is under way")
        #expect(refused.nextNs == RefusedPosition.askEveryNs)
        #expect(refused.mustAsk(nowNs: 5 * Self.second) == true)
        #expect(refused.told(first: 0, end: 200, position: 100, nowNs: 5 * Self.second) == .mistaken)
        #expect(!refused.isAsking && refused.nextNs == nil)
        #expect(refused.told(first: 300, end: 400, position: 100, nowNs: 5 * Self.second) == nil, "nobody asked")
    }

    @Test(
        arguments: [
            (0, 99, RefusedPosition.Finding.anotherLog), (0, 100, .mistaken), (100, 100, .mistaken),
            (100, 200, .mistaken),
            (101, 200, .overtaken(first: 101)), (0, 0, .anotherLog),
        ] as [(Int64, Int64, RefusedPosition.Finding)])
    func `What the log's leader says decides`(first: Int64, end: Int64, finding: RefusedPosition.Finding) {
        var refused = RefusedPosition(nowNs: 0)
        #expect(refused.told(first: first, end: end, position: 100, nowNs: 0) == finding)
        #expect(refused.isAnotherLog == (finding == .anotherLog))
    }

    @Test func `Who was sent back drops what was read before, and is sent again where that came to nothing`() {
        var refused = RefusedPosition(nowNs: 0)
        _ = refused.told(first: 0, end: 200, position: 100, nowNs: 0)
        #expect(refused.step(at: 0, position: 100, nowNs: 0) == .drop)
        #expect(refused.step(at: 1, position: 100, nowNs: Self.second - 1) == .drop)
        #expect(refused.step(at: 2, position: 100, nowNs: Self.second) == .dropAndGoBack)
        #expect(refused.step(at: 3, position: 100, nowNs: Self.second) == .drop)
        #expect(refused.step(at: 100, position: 100, nowNs: Self.second) == .arrived)
    }

    @Test func `A broker that refuses again at once is doubted once a second`() {
        var refused = RefusedPosition(nowNs: 0)
        _ = refused.told(first: 0, end: 200, position: 100, nowNs: 10)
        refused.refusedAgain(nowNs: 20)
        #expect(refused.isAsking)
        #expect(refused.mustAsk(nowNs: 20) == false)
        #expect(refused.nextNs == Self.second + 10)
        #expect(refused.mustAsk(nowNs: Self.second + 10) == true)
    }

    @Test func `What lies before the first that retention left is read, and the first says what is lost`() {
        var refused = RefusedPosition(nowNs: 0)
        _ = refused.told(first: 150, end: 200, position: 100, nowNs: 0)
        #expect(refused.step(at: 100, position: 100, nowNs: 0) == .take, "it was on its way already")
        #expect(refused.step(at: 151, position: 101, nowNs: 0) == .ahead(first: 150))
    }
}

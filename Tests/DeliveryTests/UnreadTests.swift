import PushRecords
import Testing

@testable import Delivery

/// Records that the worker must not parse, and apps that have another name in this worker.
struct UnreadTests {
    @Test
    func `A record that must not be parsed is a dead letter whatever its content, and settles once that is written`()
        throws
    {
        let rig = Rig()
        let partition = rig.assignReady(0)
        // An invalid address: reading these bytes would crash.
        let poison = UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: 8), count: 1 << 20)
        let receipt = rig.machine.receive(
            partition, offset: 0, timestampMs: rig.now.wallMs, key: poison, value: poison,
            headers: UnsafeBufferPointer(start: nil, count: 0), unread: .workerCrashed, now: rig.now)
        guard case .deadLetter(let id, .workerCrashed, let detail) = receipt else {
            Issue.record("not a dead letter: \(receipt)")
            return
        }
        #expect(detail.text.description == "the worker crashed twice while it processed this record")
        #expect(rig.offer(partition, 1, "b") == ["b"])
        rig.finish("b")
        #expect(rig.wait(ms: 1_000).takeCommit().allSatisfy { $0.offset == 0 })
        rig.finishCommit([.acknowledged])
        rig.machine.acknowledged(id, now: rig.now)
        #expect(rig.wait(ms: 1_000).takeCommit().map(\.offset) == [2])
    }

    @Test func `A retry record of an app with another name here is found by its topic`() {
        let (rig, tier) = Rig.readyTier()
        let requests = rig.assignReady(0)
        var headers = rig.retryHeaders()
        headers["push-app"] = "its name before"
        #expect(rig.offer(tier, 0, "a", headers: headers) == ["a"])
        rig.answer("a")
        #expect(rig.offer(requests, 0, "b", headers: ["push-app": "another", "apns-topic": "com.example.shop"]) == [])
        // With an environment or a topic that no app here has, the record belongs to no app.
        headers["push-environment"] = "development"
        rig.receive(tier, 1, "c", headers: headers)
        headers["push-environment"] = "production"
        headers["apns-topic"] = "com.example.gone"
        #expect(rig.offer(tier, 2, "d", headers: headers) == [])
        #expect(Set(rig.settle().compactMap(\.outcome)) == [.accepted, .invalid])
    }

    @Test func `A record whose app is not configured here is invalid and never sent as another app's`() {
        let rig = Rig()
        let requests = rig.assignReady(0)
        let cases: [(headers: [String: String], detail: String)] = [
            (["push-app": "news", "apns-topic": "com.example.shop"], "has that name and environment"),
            (["push-app": "news"], "has that name and environment"),
            (["apns-topic": "com.example.news"], "is not a bundle id"),
            (["push-environment": "development"], "has that environment"),
        ]
        for (offset, each) in cases.enumerated() { rig.receive(requests, Int64(offset), "a", headers: each.headers) }
        #expect(rig.send() == [])
        let written = rig.settle()
        #expect(written.map(\.description) == Array(repeating: "a invalid BadTopic sends 0 doubt 0", count: 4))
        for (each, written) in zip(cases, written) {
            #expect(written.detail.contains(each.detail))
            #expect(written.detail.contains("all workers of a group need the same apps"))
        }
        #expect(written.map(\.subject) == ["news", "news", "com.example.news", ""])
        #expect(rig.isEmpty)
    }

    @Test func `A record's body begins with its place, so that a crash while parsing can be attributed`() {
        #expect(MemoryLayout<Record.Body>.offset(of: \.place) == 0)
    }
}

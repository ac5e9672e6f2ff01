import PushRecords

/// `results`: the result record of an accepted notification, key, value and headers.
final class ResultsPart: PartRun {
    private(set) var count = 0
    private var writer = ResultWriter(apps: [RecordApp(name: "bench", environment: .production)])
    private let tokens = PartInputs.tokens(256)
    private let topic = PartInputs.lasting(Traffic.bundleID)
    private let requests = PartInputs.lasting("apns.requests")
    private let payload = PartInputs.lasting(Traffic.payload(7))
    private let noHeaders = PartInputs.headers([])
    private var resultBytes = 0

    func prepare() {}

    func turn() throws {
        let hash = DerivedID.topicHash(requests)
        for token in tokens {
            let offset = 1_000_000 + Int64(count)
            let content = NotificationContent(
                token: token, isBroadcast: false,
                headers: NotificationHeaders(
                    topic: topic, priority: 10,
                    apnsID: DerivedID.make(topicHash: hash, partition: 3, offset: offset, index: 0)),
                app: 0, payload: payload,
                request: RequestPlace(topic: requests, partition: 3, offset: offset, index: 0),
                requestKey: PartInputs.nothing, requestedAtMs: 1_800_000_000_000, copiedHeaders: noHeaders)
            let ending = Ending(
                outcome: .accepted, status: 200, attempts: 1, inDoubt: 0, sentAtMs: 1_800_000_000_003,
                settledAtMs: 1_800_000_000_007)
            let record = writer.write(content, ending)
            resultBytes &+= record.value.count &+ record.headers.count
            count += 1
        }
        guard resultBytes > 0 else { throw BenchFailure("results have no bytes") }
    }
}

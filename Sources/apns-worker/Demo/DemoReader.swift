import Configuration
import Kafka
import PushRecords

/// Reads results, dead tokens and dead letters back, as a consumer of them would. One thread.
final class DemoReader {
    private let consumer: Consumer
    private let configuration: WorkerConfiguration
    private var queues: [PartitionQueue] = []
    private var withheld: Int
    private(set) var failure: String?

    init(_ configuration: WorkerConfiguration, withheld: Int) throws(KafkaError) {
        self.configuration = configuration
        self.withheld = withheld
        consumer = try Consumer(
            ConsumerSettings(
                cluster: ClusterSettings(
                    bootstrapServers: configuration.kafka.bootstrapServers, clientID: "demo-reader"),
                role: .requests, groupID: "demo-reader", sessionTimeoutMs: 2_000))
        try consumer.subscribe(to: [
            configuration.results.topic, configuration.unregistered.topic, configuration.deadLetters.topic,
        ])
    }

    /// Takes what there is into the books, waiting at most `timeoutMs` for events of the group.
    func read(into books: inout DemoBooks, timeoutMs: Int32) {
        consumer.serve(timeoutMs: timeoutMs) { event in
            do throws(KafkaError) {
                switch event {
                case .assigned(let partitions):
                    queues = try consumer.assign(partitions.map { PartitionStart($0, offset: nil) })
                case .revoked:
                    queues = []
                    try consumer.unassign()
                case .client(.fatal(let error)): failure = error.text
                case .committed, .offsetReset, .partitionFailed, .client: break
                }
            } catch {
                failure = error.text
            }
        }
        for queue in queues {
            let topic = queue.partition.topic
            queue.read(max: 10_000) { message in
                if topic == configuration.results.topic {
                    noteResult(message, &books)
                } else if topic == configuration.unregistered.topic {
                    books.noteDeadToken()
                } else {
                    books.noteDeadLetter()
                }
                return true
            }
        }
    }

    private func noteResult(_ message: borrowing Message, _ books: inout DemoBooks) {
        var request = ""
        var outcome = ""
        message.forEachHeader { name, value in
            if name.elementsEqual("request".utf8) { request = String(decoding: value, as: UTF8.self) }
            if name.elementsEqual("outcome".utf8) { outcome = String(decoding: value, as: UTF8.self) }
        }
        guard withheld == 0 else {
            withheld -= 1
            return
        }
        guard let outcome = Outcome(rawValue: outcome) else {
            failure = "a result without an outcome: \(request)"
            return
        }
        books.noteResult(request: request, outcome: outcome)
    }
}

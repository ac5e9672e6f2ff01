import Configuration
import Kafka
import PushRecords
import Worker

/// Reads results, dead tokens and dead letters back, as whoever consumes them would. One thread.
final class DemoReader {
    private let consumer: Consumer
    private var queues: [PartitionQueue] = []
    private let configuration: WorkerConfiguration
    /// Which result to leave out, counted from 1; 0: none.
    private let withheld: Int
    private var results = 0
    private(set) var failure: String?

    init(_ configuration: WorkerConfiguration, withheld: Int) throws {
        self.configuration = configuration
        self.withheld = withheld
        var cluster = try configuration.cluster()
        cluster.clientID = "demo-reader"
        consumer = try Consumer(ConsumerSettings(cluster: cluster, role: .requests, groupID: "demo-reader"))
        let topics = [
            configuration.results.topic, configuration.unregistered.topic, configuration.deadLetters.topic,
        ]
        let known = try Topics(cluster).all(timeoutMs: 10_000)
        // It owns every partition and commits nothing, so it needs no group.
        queues = try consumer.assign(
            topics.flatMap { topic in
                (0..<Int32(known[topic]?.partitions ?? 0)).map {
                    PartitionStart(TopicPartition(topic, $0), offset: nil)
                }
            })
    }

    /// A result was left out.
    var hasWithheld: Bool { withheld > 0 && results >= withheld }

    /// Takes what there is into the books, waiting at most `timeoutMs` when there is nothing; returns how much it was.
    @discardableResult
    func read(into books: inout DemoBooks, timeoutMs: Int32) -> Int {
        var count = readQueues(&books)
        consumer.serve(timeoutMs: count == 0 ? timeoutMs : 0) { event in
            if case .client(.fatal(let error)) = event { failure = "the reader failed: \(error.text)" }
        }
        count += readQueues(&books)
        return count
    }

    private func readQueues(_ books: inout DemoBooks) -> Int {
        var count = 0
        for queue in queues {
            let topic = queue.partition.topic
            count += queue.read(max: 10_000) { message in
                if topic == configuration.results.topic {
                    noteResult(message, &books)
                } else if topic == configuration.unregistered.topic {
                    books.noteDeadToken(DemoTraffic.number(inToken: String(decoding: message.key, as: UTF8.self)))
                } else {
                    let value = String(decoding: message.value, as: UTF8.self)
                    books.noteDeadLetter(DemoTraffic.number(inUnreadableValue: value))
                }
                return true
            }
        }
        return count
    }

    private func noteResult(_ message: borrowing Message, _ books: inout DemoBooks) {
        results += 1
        guard results != withheld else { return }
        do throws(RecordError) {
            let result = try DeliveryResult(json: message.value)
            books.noteResult(
                DemoTraffic.number(inToken: String(decoding: message.key, as: UTF8.self)), result.outcome,
                inDoubt: result.inDoubt)
        } catch {
            failure = "a result cannot be read: \(error)"
        }
    }
}

import Kafka

/// Writes the demo's requests: mostly the payload form, some envelopes that fan out. One thread.
final class DemoProducer {
    private let producer: Producer
    private let topic: ProducerTopic
    private var traffic: DemoTraffic
    /// Made, but not taken by librdkafka yet.
    private var waiting: DemoTraffic.Record?
    /// Notifications handed to librdkafka.
    private(set) var produced = 0
    private(set) var isDone = false
    private(set) var failure: String?

    init(bootstrapServers: String, topic: String, count: Int) throws(KafkaError) {
        traffic = DemoTraffic(count: count)
        producer = try Producer(
            ProducerSettings(cluster: ClusterSettings(bootstrapServers: bootstrapServers, clientID: "demo-producer")))
        self.topic = try producer.topic(topic)
        try producer.warmUp(timeoutMs: 10_000)
    }

    /// Records the broker has not acknowledged yet.
    var outstanding: Int { producer.outstanding }

    /// Writes records until `limit` notifications are written, or librdkafka's queue is full, and notes them.
    func produce(upTo limit: Int, _ books: inout DemoBooks) {
        while produced < limit, !isDone {
            guard let record = waiting ?? traffic.record() else {
                isDone = true
                break
            }
            guard write(record) else {
                waiting = record
                break
            }
            waiting = nil
            produced += record.count
            books.noteProduced(record)
        }
        producer.serve(
            report: { report in
                if report.code != .none { failure = "a request was not written: \(report.code.text)" }
            },
            event: { event in
                if case .fatal(let error) = event { failure = "the producer failed: \(error.text)" }
            })
    }

    /// False: the queue is full.
    private func write(_ record: DemoTraffic.Record) -> Bool {
        let number = record.first
        if record.count > 1 {
            let tokens = (number..<number + record.count).map { "\"\(DemoTraffic.token($0, record.completion))\"" }
            return write(
                key: nil,
                value: "{\"device_tokens\":[\(tokens.joined(separator: ","))],"
                    + "\"headers\":{\"apns-priority\":5},\"payload\":\(DemoTraffic.payload(number))}")
        }
        let token = DemoTraffic.token(number, record.completion)
        switch record.completion {
        case .accepted, .retried, .unregistered, .rejected:
            return write(key: token, value: DemoTraffic.payload(number))
        case .invalid: return write(key: token, value: DemoTraffic.payload(number), header: ("apns-priority", "7"))
        case .expired:
            return write(key: token, value: DemoTraffic.payload(number), header: ("apns-expiration", "1600000000"))
        case .deadLetter: return write(key: nil, value: DemoTraffic.unreadableValue(number))
        }
    }

    private func write(key: String?, value: String, header: (name: String, value: String)? = nil) -> Bool {
        var key = key
        var value = value
        var name = header?.name ?? ""
        var text = header?.value ?? ""
        // Everything is copied before `produce` returns.
        let code = withBytes(of: &key) { key in
            value.withUTF8 { value in
                name.withUTF8 { name in
                    text.withUTF8 { text in
                        producer.produce(
                            to: topic, key: key, value: UnsafeRawBufferPointer(value),
                            headers: header == nil
                                ? []
                                : [
                                    MessageHeader(
                                        name: UnsafeRawBufferPointer(name), value: UnsafeRawBufferPointer(text))
                                ],
                            tag: 0)
                    }
                }
            }
        }
        if code != .none, code != .queueFull { failure = "a request was not written: \(code.text)" }
        return code == .none
    }

    private func withBytes(of text: inout String?, _ body: (UnsafeRawBufferPointer) -> KafkaCode) -> KafkaCode {
        guard var bytes = text else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        return bytes.withUTF8 { body(UnsafeRawBufferPointer($0)) }
    }
}

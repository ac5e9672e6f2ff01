import Kafka
import PushRecords

/// Makes the demo's requests: mostly the payload form, some envelopes that fan out, and a few of everything that goes
/// wrong. One thread.
final class DemoProducer {
    private let producer: Producer
    private let topic: ProducerTopic
    private let total: Int
    private var random = SystemRandomNumberGenerator()
    /// Notifications handed to librdkafka, of all kinds.
    private(set) var made = 0
    private var records = 0
    private(set) var failure: String?

    /// Tokens of one envelope.
    private static let fanOut = 20

    init(bootstrapServers: String, total: Int) throws(KafkaError) {
        self.total = total
        producer = try Producer(
            ProducerSettings(cluster: ClusterSettings(bootstrapServers: bootstrapServers, clientID: "demo-producer")))
        topic = try producer.topic(DemoTopics.requests)
        try producer.warmUp(timeoutMs: 10_000)
    }

    var isDone: Bool { made >= total }

    /// Makes records until `limit` notifications were made in all, or the producer is full.
    func produce(upTo limit: Int) {
        while made < min(limit, total) {
            guard produceOne() else { return }
        }
    }

    /// Takes acknowledgements into the books.
    func serve(_ books: inout DemoBooks) {
        producer.serve(
            report: { report in
                guard report.code == .none else {
                    failure = "a request could not be produced: \(report.code.text)"
                    return
                }
                let fortune = DemoBooks.Fortune(rawValue: UInt8(report.tag & 0xFF))!
                books.noteProduced(fortune, notifications: Int(report.tag >> 8))
            },
            event: { event in
                if case .fatal(let error) = event { failure = error.text }
            })
    }

    private func produceOne() -> Bool {
        let isTaken: Bool
        var count = 1
        // Of 200 records: one each of the kinds that go wrong, one envelope, the rest plain.
        switch records % 200 {
        case 10, 110: isTaken = send(token: "fa1741010" + digits(55), .unregistered)
        case 40: isTaken = send(token: "fa1740010" + digits(55), .rejected)
        case 70: isTaken = send(token: "fa1742911" + digits(55), .retriedThenAccepted)
        case 100: isTaken = send(token: digits(64), .invalid, headers: [("apns-priority", "7")])
        case 130: isTaken = send(key: "no token", value: "no request", .deadLetter, count: 1)
        case 160 where total - made >= Self.fanOut:
            count = Self.fanOut
            let tokens = (0..<count).map { _ in "\"\(plainToken())\"" }.joined(separator: ",")
            isTaken = send(
                key: nil,
                value: #"{"device_tokens":[\#(tokens)],"headers":{"apns-priority":5},"payload":{"aps":{"alert":"#
                    + #""To all of you"}}}"#, .accepted, count: count)
        default: isTaken = send(token: plainToken(), .accepted)
        }
        guard isTaken else { return false }
        records += 1
        made += count
        return true
    }

    private func send(token: String, _ fortune: DemoBooks.Fortune, headers: [(String, String)] = []) -> Bool {
        send(
            key: token, value: #"{"aps":{"alert":{"title":"Demo","body":"Notification \#(made)"},"sound":"default"}}"#,
            fortune, count: 1, headers: headers)
    }

    private func send(
        key: String?, value: String, _ fortune: DemoBooks.Fortune, count: Int, headers: [(String, String)] = []
    ) -> Bool {
        var key = key
        var value = value
        let names = headers.map { (Array($0.0.utf8), Array($0.1.utf8)) }
        let code = withBytes(of: &key) { key in
            value.withUTF8 { value in
                var list: [MessageHeader] = []
                for (name, text) in names {
                    name.withUnsafeBytes { name in
                        text.withUnsafeBytes { list.append(MessageHeader(name: name, value: $0)) }
                    }
                }
                return withExtendedLifetime(names) {
                    producer.produce(
                        to: topic, key: key, value: UnsafeRawBufferPointer(value), headers: list,
                        tag: UInt64(count) << 8 | UInt64(fortune.rawValue))
                }
            }
        }
        if code != .none, code != .queueFull { failure = code.text }
        return code == .none
    }

    private func withBytes(of text: inout String?, _ body: (UnsafeRawBufferPointer) -> KafkaCode) -> KafkaCode {
        guard var bytes = text else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        return bytes.withUTF8 { body(UnsafeRawBufferPointer($0)) }
    }

    /// A token that the simulator answers with 200: its prefixes of faults begin with `fa17`.
    private func plainToken() -> String { "0" + digits(63) }

    private func digits(_ count: Int) -> String {
        let alphabet: [UInt8] = Array("0123456789abcdef".utf8)
        return String(unsafeUninitializedCapacity: count) { buffer in
            var word: UInt64 = 0
            for place in 0..<count {
                if place % 16 == 0 { word = random.next() }
                buffer[place] = alphabet[Int(word & 15)]
                word >>= 4
            }
            return count
        }
    }
}

import Bytes
import Configuration
import Kafka
import PushRecords
import Replay

/// What the demo's producer writes: notifications by number, each with a device token that holds its number, and what
/// is to become of each. The same count makes the same traffic.
struct DemoTraffic {
    /// What becomes of a notification.
    enum Completion: CaseIterable {
        case accepted
        /// Answered with 429 first, accepted at the second attempt.
        case retried
        case unregistered
        case rejected
        /// It has a priority that Apple does not know.
        case invalid
        case expired
        /// No notification can be read from its record.
        case deadLetter

        /// The outcome of its result; `nil` for a dead letter, which has no result.
        var outcome: Outcome? {
            switch self {
            case .accepted, .retried: .accepted
            case .unregistered: .unregistered
            case .rejected: .rejected
            case .invalid: .invalid
            case .expired: .expired
            case .deadLetter: nil
            }
        }

        /// What a device token begins with to ask the simulator for it (`simulate --help`). A token that asks for
        /// nothing must not begin with `fa17`.
        var tokenPrefix: String {
            switch self {
            case .accepted, .invalid, .expired, .deadLetter: "0"
            case .retried: "fa1742911"
            case .unregistered: "fa1741010"
            case .rejected: "fa1740010"
            }
        }
    }

    /// One record: the notifications from `first` on. More than one are an envelope with a list of device tokens.
    struct Record {
        var first: Int
        var count = 1
        var completion = Completion.accepted

        /// The record as a producer writes it.
        var request: OwnedRecord {
            let payload =
                #"{"aps":{"alert":{"title":"Order \#(first)","body":"Your order is on its way."},"sound":"default"}}"#
            if count > 1 {
                let tokens = (first..<first + count).map { "\"\(DemoTraffic.token($0, completion))\"" }
                return Self.record(
                    nil,
                    "{\"device_tokens\":[\(tokens.joined(separator: ","))],\"headers\":{\"apns-priority\":5},\"payload\":\(payload)}"
                )
            }
            let token = DemoTraffic.token(first, completion)
            switch completion {
            case .accepted, .retried, .unregistered, .rejected: return Self.record(token, payload)
            case .invalid: return Self.record(token, payload, ("apns-priority", "7"))
            case .expired: return Self.record(token, payload, ("apns-expiration", "1600000000"))
            case .deadLetter: return Self.record(nil, "no push at all: \(first)")
            }
        }

        private static func record(_ key: String?, _ value: String, _ headers: (String, String)...) -> OwnedRecord {
            OwnedRecord(
                key: key.map { Array($0.utf8) }, value: Array(value.utf8),
                headers: headers.map { OwnedRecord.Header(Array($0.0.utf8), Array($0.1.utf8)) })
        }
    }

    static let bundleID = "com.example.demo"
    private static let fanOut = 10

    private let count: Int
    private var next = 0
    private var random = SplitMix64(seed: 1)

    init(count: Int) { self.count = count }

    /// Returns the next record; `nil` once all are made.
    mutating func record() -> Record? {
        guard next < count else { return nil }
        var record = Record(first: next)
        // Of 1,000 records 30 are envelopes of ten (a quarter of all notifications), and 50 are not simply accepted.
        let roll = random.below(1_000)
        if roll < 30, next + Self.fanOut <= count { record.count = Self.fanOut }
        switch roll {
        case 950..<965: record.completion = .unregistered
        case 965..<975: record.completion = .rejected
        case 975..<985: record.completion = .retried
        case 985..<990: record.completion = .invalid
        case 990..<995: record.completion = .expired
        case 995...: record.completion = .deadLetter
        default: break
        }
        next += record.count
        return record
    }

    /// 64 hex digits: what the simulator is asked for, filler, the number.
    static func token(_ number: Int, _ completion: Completion) -> String {
        func digits(_ number: UInt64, _ count: Int) -> String {
            let text = String(number, radix: 16)
            return String(repeating: "0", count: max(0, count - text.count)) + text.suffix(count)
        }
        var random = SplitMix64(seed: UInt64(number))
        let filler = (0..<4).map { _ in digits(random.next(), 16) }.joined()
        let start = completion.tokenPrefix
        return start + filler.prefix(52 - start.count) + digits(UInt64(number), 12)
    }

    /// The number in a token; `nil` if the demo did not make the token.
    static func number(inToken token: some StringProtocol) -> Int? {
        token.count == 64 ? Int(token.suffix(12), radix: 16) : nil
    }

    /// The number in the value of a record that cannot be read.
    static func number(inDeadLetter value: String) -> Int? { value.split(separator: " ").last.flatMap { Int($0) } }
}

/// Writes the demo's requests: mostly the payload form, some envelopes that fan out. One thread.
final class DemoProducer {
    private let producer: Producer
    private let topic: ProducerTopic
    private var traffic: DemoTraffic
    /// Made, but not taken by librdkafka yet.
    private var waiting: DemoTraffic.Record?
    private var hasMadeAll = false
    private(set) var failure: String?

    init(_ configuration: WorkerConfiguration, count: Int) throws(KafkaError) {
        traffic = DemoTraffic(count: count)
        producer = try Producer(
            ProducerSettings(
                cluster: ClusterSettings(
                    bootstrapServers: configuration.kafka.bootstrapServers, clientID: "demo-producer")))
        topic = try producer.topic(configuration.requestTopics[0].name)
        try producer.warmUp(timeoutMs: 10_000)
    }

    var isDone: Bool { hasMadeAll && producer.outstanding == 0 }

    /// Writes records until `limit` notifications are written, or librdkafka's queue is full, and notes them.
    func produce(upTo limit: Int, _ books: inout DemoBooks) {
        while books.produced < limit, !hasMadeAll {
            guard let record = waiting ?? traffic.record() else {
                hasMadeAll = true
                break
            }
            let code = producer.produce(record.request, to: topic)
            waiting = code == .none ? nil : record
            guard code == .none else {
                if code != .queueFull { failure = "a request was not written: \(code.text)" }
                break
            }
            books.noteProduced(record)
        }
        producer.serve(
            report: { if $0.code != .none { failure = "a request was not written: \($0.code.text)" } },
            event: { if case .fatal(let error) = $0 { failure = "the producer failed: \(error.text)" } })
    }
}

/// Reads results, dead tokens and dead letters back, as any consumer would. One thread.
struct DemoReader {
    private let results: TopicReader
    private let unregistered: TopicReader
    private let deadLetters: TopicReader
    /// Which result to leave out, counted from 1; 0 for none.
    private let withheld: Int
    private var count = 0

    init(_ configuration: WorkerConfiguration, _ cluster: ClusterSettings, withheld: Int) throws(CommandFailure) {
        self.withheld = withheld
        func reader(_ topic: String) throws(CommandFailure) -> TopicReader {
            let reader = try TopicReader(cluster, topic: topic, BrokerWait(cluster, until: Deadline(after: nil)))
            try reader.start(at: .beginning)
            return reader
        }
        results = try reader(configuration.results.topic)
        unregistered = try reader(configuration.unregistered.topic)
        deadLetters = try reader(configuration.deadLetters.topic)
    }

    /// Whether a result was left out.
    var hasWithheld: Bool { withheld > 0 && count >= withheld }

    /// Notes what there is, waiting at most `timeoutMs` when there are no results.
    mutating func read(into books: inout DemoBooks, timeoutMs: Int32) throws(CommandFailure) {
        var failure: CommandFailure?
        try results.read(timeoutMs: timeoutMs) { _, message in
            count += 1
            guard count != withheld else { return true }
            do throws(RecordError) {
                let result = try DeliveryResult(json: message.value)
                books.noteResult(Self.number(message.key), result.outcome, inDoubt: result.inDoubt)
            } catch {
                failure = CommandFailure("a result cannot be read: \(error)")
            }
            return failure == nil
        }
        if let failure { throw failure }
        try unregistered.read(timeoutMs: 0) { _, message in
            books.noteDeadToken(Self.number(message.key))
            return true
        }
        try deadLetters.read(timeoutMs: 0) { _, message in
            books.noteDeadLetter(DemoTraffic.number(inDeadLetter: String(decoding: message.value, as: UTF8.self)))
            return true
        }
    }

    private static func number(_ key: UnsafeRawBufferPointer) -> Int? {
        DemoTraffic.number(inToken: String(decoding: key, as: UTF8.self))
    }
}

import PushRecords

/// How requests are written.
struct RequestForm: Hashable {
    enum Shape: Hashable {
        case payload
        /// Payload form with an `apns-id` of the producer's, random.
        case payloadWithID
        case envelope(tokens: Int)
    }

    var shape = Shape.payload
    /// Their bundle ids take turns.
    var apps = 1

    /// Notifications of a record.
    var tokensPerRecord: Int { if case .envelope(let tokens) = shape { tokens } else { 1 } }

    /// Of a topic's name.
    var word: String {
        let apps = apps == 1 ? "" : "-\(apps)-apps"
        switch shape {
        case .payload: return "payload\(apps)"
        case .payloadWithID: return "ids\(apps)"
        case .envelope(let tokens): return "envelope-\(tokens)\(apps)"
        }
    }
}

/// A topic full of requests.
struct RequestTopic {
    let name: String
    let form: RequestForm
    /// Notifications.
    let count: Int
    let partitions: Int

    var records: Int { count / form.tokensPerRecord }
}

/// The bytes of one request record after the other, in reused memory.
struct RequestText {
    private let form: RequestForm
    private let tokens: [[UInt8]]
    private let bundleIDs: [[UInt8]]
    private var payload = PayloadText()
    private var random = SystemRandomNumberGenerator()

    /// Empty: it has none.
    private(set) var key: [UInt8] = []
    private(set) var value: [UInt8] = []
    private(set) var topic: [UInt8] = []
    /// Empty: the worker makes one.
    private(set) var apnsID: [UInt8] = []

    /// -1: by its key.
    private(set) var partition: Int32 = -1

    var hasHeaders: Bool { if case .envelope = form.shape { false } else { true } }

    private let partitions: Int32

    init(_ form: RequestForm, _ traffic: Traffic, partitions: Int) {
        self.form = form
        self.partitions = Int32(partitions)
        tokens = traffic.tokens.map { Array($0.utf8) }
        bundleIDs = (0..<form.apps).map { Array(Traffic.bundleID(app: $0, of: form.apps).utf8) }
    }

    mutating func set(record number: Int) {
        payload.set(number)
        let app = number % form.apps
        switch form.shape {
        case .payload, .payloadWithID:
            key = tokens[number % tokens.count]
            topic = bundleIDs[app]
            value = payload.bytes
            if form.shape == .payloadWithID { apnsID = Array(NotificationUUID.random(using: &random).description.utf8) }
        case .envelope(let count):
            // Without a key librdkafka would fill one partition after the other.
            partition = Int32(number) % partitions
            value.removeAll(keepingCapacity: true)
            value += (count == 1 ? "{\"device_token\":\"" : "{\"device_tokens\":[\"").utf8
            for place in 0..<count {
                if place > 0 { value += "\",\"".utf8 }
                value += tokens[(number * count + place) % tokens.count]
            }
            value += (count == 1 ? "\"" : "\"]").utf8
            value += ",\"headers\":{\"apns-topic\":\"".utf8
            value += bundleIDs[app]
            value += "\",\"apns-push-type\":\"\(Traffic.pushType)\"},\"payload\":".utf8
            value += payload.bytes
            value.append(UInt8(ascii: "}"))
        }
    }
}

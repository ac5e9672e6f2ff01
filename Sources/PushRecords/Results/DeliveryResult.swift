/// The outcome of one notification: a record of `apns.results`.
///
/// ```swift
/// let result = try DeliveryResult(json: message.value)
/// switch (result.outcome, result.reason) {
/// case (.accepted, _): break
/// case (.rejected, .badTopic?): alarm("wrong bundle id: \(result.apnsTopic ?? "")")
/// default: log(result.request, result.outcome, result.reason?.rawValue ?? "", result.detail ?? "")
/// }
/// ```
///
/// After a crash a notification's result may come more than once: deduplicate on `request`.
public struct DeliveryResult: Hashable, Sendable {
    /// The identity of a notification: where it was requested.
    public struct Request: Hashable, Sendable, CustomStringConvertible {
        public var topic: String
        public var partition: Int32
        public var offset: Int64
        /// Index in the record's list of tokens; 0 if it has a single target.
        public var index: Int32
        /// The record's key, unless it was the token.
        public var key: String?

        public init(topic: String, partition: Int32, offset: Int64, index: Int32, key: String? = nil) {
            self.topic = topic
            self.partition = partition
            self.offset = offset
            self.index = index
            self.key = key
        }

        /// `topic/partition/offset/index`, as in the header `push-retry-request` of a retry record.
        public var description: String { "\(topic)/\(partition)/\(offset)/\(index)" }
    }

    /// The `apns-id`, if it ever had one.
    public var apnsID: NotificationUUID?
    /// Apple's id for its Delivery Log (development only).
    public var apnsUniqueID: String?
    /// Lower-case hex, or as written if it is no token. `nil` for a broadcast.
    public var deviceToken: String?
    /// The channel of a broadcast.
    public var channelID: String?
    /// `nil` if unknown.
    public var apnsTopic: String?
    /// The app of the worker's configuration; `nil` if unknown.
    public var app: String?
    /// The app's environment; `nil` if the app is unknown.
    public var environment: PushEnvironment?
    /// The final outcome.
    public var outcome: Outcome
    /// The HTTP status, if Apple answered.
    public var status: Int?
    /// The reason, Apple's where it has one. An unknown one is kept as it came.
    public var reason: Reason?
    /// An explanation for people.
    public var detail: String?
    /// When the token died, in milliseconds since the epoch (1970, UTC): delete only tokens registered before.
    public var unregisteredAtMs: Int64?
    /// The number of sends, including those in doubt.
    public var attempts: Int
    /// The number of sends whose completion is unknown. Above 0, the device may have shown it more than once.
    public var inDoubt: Int
    /// The request record's timestamp; 0 if it had none that is valid.
    public var requestedAtMs: Int64
    /// When it was last sent, if ever.
    public var sentAtMs: Int64?
    /// When its outcome was known.
    public var settledAtMs: Int64
    /// Where it was requested.
    public var request: Request

    /// A result of something that was requested nowhere.
    package init(_ outcome: Outcome, requestedAtMs: Int64, settledAtMs: Int64) {
        self.outcome = outcome
        attempts = 0
        inDoubt = 0
        self.requestedAtMs = requestedAtMs
        self.settledAtMs = settledAtMs
        request = Request(topic: "", partition: 0, offset: 0, index: 0)
    }
}

extension DeliveryResult {
    /// The device token, if it is valid and the notification is no broadcast.
    public var device: DeviceToken? { deviceToken.flatMap { try? DeviceToken(hex: $0) } }

    /// Whether the completion of a send is unknown: the device may have shown it more than once, or in spite of the
    /// outcome.
    public var isInDoubt: Bool { inDoubt > 0 }
}

extension DeliveryResult {
    /// Reads a result record's value. Unknown members are ignored; `null` counts as absent.
    ///
    /// Throws if it is not JSON, a member has a wrong type, or one that every result has is missing.
    public init(json: some Collection<UInt8>) throws(RecordError) {
        self = try RecordReader.read(json) { (reader) throws(RecordError) in try DeliveryResult(&reader) }
    }

    private init(_ reader: inout RecordReader) throws(RecordError) {
        var outcome: Outcome?
        var request: Request?
        var requestedAtMs: Int64?
        var settledAtMs: Int64?
        attempts = 0
        inDoubt = 0
        while let member = reader.next() {
            switch member {
            case "apns_id": apnsID = try reader.optionalWord { NotificationUUID(text: $0) }
            case "apns_unique_id": apnsUniqueID = try reader.optionalText()
            case "device_token": deviceToken = try reader.optionalText()
            case "channel_id": channelID = try reader.optionalText()
            case "apns_topic": apnsTopic = try reader.optionalText()
            case "app": app = try reader.optionalText()
            case "environment": environment = try reader.optionalWord { PushEnvironment(text: $0) }
            case "outcome": outcome = try reader.word { Outcome(rawValue: $0) }
            case "status": status = try reader.optionalInteger().map { Int($0) }
            case "reason": reason = try reader.optionalText().map { Reason(rawValue: $0) }
            case "detail": detail = try reader.optionalText()
            case "unregistered_at_ms": unregisteredAtMs = try reader.optionalInteger()
            case "attempts": attempts = try reader.integer(Int.self)
            case "in_doubt": inDoubt = try reader.integer(Int.self)
            case "requested_at_ms": requestedAtMs = try reader.integer()
            case "sent_at_ms": sentAtMs = try reader.optionalInteger()
            case "settled_at_ms": settledAtMs = try reader.integer()
            case "request": request = try Request(&reader)
            default: reader.skip()
            }
        }
        self.outcome = try outcome.required("outcome")
        self.request = try request.required("request")
        self.requestedAtMs = try requestedAtMs.required("requested_at_ms")
        self.settledAtMs = try settledAtMs.required("settled_at_ms")
    }
}

extension DeliveryResult.Request {
    /// Reads `topic/partition/offset/index`, as in the header `push-retry-request` of a retry record.
    public init?(text: some StringProtocol) {
        var text = String(text)
        let read: Self? = text.withUTF8 { bytes in
            guard let place = RequestPlace(text: UnsafeRawBufferPointer(bytes)) else { return nil }
            return Self(
                topic: String(decoding: place.topic, as: UTF8.self), partition: place.partition, offset: place.offset,
                index: place.index)
        }
        guard let read else { return nil }
        self = read
    }

    fileprivate init(_ reader: inout RecordReader) throws(RecordError) {
        try reader.enterObject()
        var topic: String?
        var partition: Int32?
        var offset: Int64?
        var index: Int32?
        while let member = reader.next() {
            switch member {
            case "topic": topic = try reader.text()
            case "partition": partition = try reader.integer(Int32.self)
            case "offset": offset = try reader.integer()
            case "index": index = try reader.integer(Int32.self)
            case "key": key = try reader.optionalText()
            default: reader.skip()
            }
        }
        self.topic = try topic.required("request.topic")
        self.partition = try partition.required("request.partition")
        self.offset = try offset.required("request.offset")
        self.index = try index.required("request.index")
    }
}

extension PushEnvironment {
    /// Reads `production` or `development`.
    public init?(text: String) {
        guard let environment = Self.allCases.first(where: { $0.text.description == text }) else { return nil }
        self = environment
    }
}

/// The outcome of a notification. Each has exactly one.
public enum Outcome: String, CaseIterable, Sendable {
    /// APNs answered 200.
    case accepted
    /// 410: the device token is dead; a record also went to the dead-token topic.
    case unregistered
    /// APNs refused it, and it must not be sent again unchanged.
    case rejected
    /// Refused by the worker, never sent.
    case invalid
    /// Its apns-expiration, or `delivery.max_age`, passed before it could be sent, or sent again.
    case expired
    /// Retries used up, or giving up was configured.
    case abandoned
}

/// Apple's two environments.
public enum PushEnvironment: UInt8, CaseIterable, Sendable {
    case production, development

    /// The name in records and configurations.
    public var text: StaticString {
        switch self {
        case .production: "production"
        case .development: "development"
        }
    }
}

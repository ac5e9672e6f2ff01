/// What became of one notification: a record of `apns.results`.
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
/// A notification's result may come more than once after a crash: deduplicate on `request`.
public struct DeliveryResult: Hashable, Sendable {
    /// Where a notification was asked for. Identifies it: deduplicate on it.
    public struct Request: Hashable, Sendable, CustomStringConvertible {
        public var topic: String
        public var partition: Int32
        public var offset: Int64
        /// Place in the record's list of tokens; 0 when there is one.
        public var index: Int32
        /// The record's key; `nil` when it had none or it was the token.
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

    /// The `apns-id`; `nil` when it never had one.
    public var apnsID: NotificationUUID?
    /// Apple's id for its Delivery Log (development only).
    public var apnsUniqueID: String?
    /// Lower-case hex; as written when it is not a token; `nil` for a broadcast.
    public var deviceToken: String?
    /// `nil` unless it was a broadcast.
    public var channelID: String?
    /// `nil` when none could be told.
    public var apnsTopic: String?
    /// The app of the worker's configuration; `nil` when none could be told.
    public var app: String?
    /// The app's; `nil` when no app could be told.
    public var environment: PushEnvironment?
    /// What became of it.
    public var outcome: Outcome
    /// The HTTP status; `nil` when Apple did not answer.
    public var status: Int?
    /// Why, in Apple's vocabulary where it has a word; one that this version does not know is kept as it came.
    public var reason: Reason?
    /// In words, for people.
    public var detail: String?
    /// Since when the token is dead, in milliseconds since the epoch (1970, UTC): delete only tokens registered before.
    public var unregisteredAtMs: Int64?
    /// How often it was sent, at most: sends in doubt count.
    public var attempts: Int
    /// How many of these sends have an unknown completion: above 0, the device may have been shown it more than once.
    public var inDoubt: Int
    /// The request record's timestamp; 0: it had none, or none of this calendar.
    public var requestedAtMs: Int64
    /// `nil` when it was never sent.
    public var sentAtMs: Int64?
    /// When its outcome was clear.
    public var settledAtMs: Int64
    /// Where it was asked for.
    public var request: Request
}

extension DeliveryResult {
    /// The device token, where it is one; `nil` for a broadcast, and for what was refused because it is none.
    public var device: DeviceToken? { deviceToken.flatMap { try? DeviceToken(hex: $0) } }

    /// The device may have been shown it more than once, or in spite of an outcome that says otherwise: a send's
    /// completion is unknown.
    public var isInDoubt: Bool { inDoubt > 0 }
}

extension DeliveryResult {
    /// Reads a result record's value. Members that this version does not know are ignored; what is `null` counts as
    /// left out.
    ///
    /// Throws what is wrong when it is not JSON, a member has another type, or one that every result has is missing.
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
    /// Reads `topic/partition/offset/index`, as a retry record's header `push-retry-request` has it; `nil` for anything
    /// else.
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
    /// `production` or `development`; `nil` for anything else.
    public init?(text: String) {
        guard let environment = Self.allCases.first(where: { $0.text.description == text }) else { return nil }
        self = environment
    }
}

/// What became of a notification; each ends in exactly one.
public enum Outcome: String, CaseIterable, Sendable {
    /// APNs said 200.
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

/// Which of Apple's two environments.
public enum PushEnvironment: UInt8, CaseIterable, Sendable {
    case production, development

    /// Its word in records and configurations.
    public var text: StaticString {
        switch self {
        case .production: "production"
        case .development: "development"
        }
    }
}

/// A record of `apns.results`: the outcome of one notification.
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
/// The result of a notification can be published again, for example after a crash. Use `request` to deduplicate.
public struct DeliveryResult: Hashable, Sendable {
    /// The identity of a notification: the topic, partition and offset of its request record, and its index in the
    /// record's list of tokens.
    public struct Request: Hashable, Sendable, CustomStringConvertible {
        public var topic: String
        public var partition: Int32
        public var offset: Int64
        /// The index in the record's list of tokens. 0 if the record has a single target.
        public var index: Int32
        /// The record's key, or `nil` if there is none, or if the key is the device token or channel id.
        public var key: String?

        public init(topic: String, partition: Int32, offset: Int64, index: Int32, key: String? = nil) {
            self.topic = topic
            self.partition = partition
            self.offset = offset
            self.index = index
            self.key = key
        }

        /// The text `topic/partition/offset/index`, as in the header `push-retry-request` of a retry record.
        public var description: String { "\(topic)/\(partition)/\(offset)/\(index)" }
    }

    /// The notification's `apns-id`, or `nil` if the notification has none.
    public var apnsID: NotificationUUID?
    /// Apple's id for its Delivery Log, in the development environment only.
    public var apnsUniqueID: String?
    /// The device token in lower-case hex, or as the producer wrote it if it is invalid. `nil` for a broadcast.
    public var deviceToken: String?
    /// The channel id of a broadcast, or `nil` for a notification to a device.
    public var channelID: String?
    /// The `apns-topic`, or `nil` if it is unknown.
    public var apnsTopic: String?
    /// The name of the app in the worker's configuration, or `nil` if it is unknown.
    public var app: String?
    /// The environment of the app, or `nil` if the app is unknown.
    public var environment: PushEnvironment?
    /// The final outcome.
    public var outcome: Outcome
    /// The HTTP status of APNs's last answer, or `nil` if APNs has not answered since the last stay in a retry topic.
    public var status: Int?
    /// The reason in Apple's spelling, or `nil` if there is none. A reason that the worker does not know is copied
    /// unchanged from APNs's response.
    public var reason: Reason?
    /// A human-readable explanation of the outcome.
    public var detail: String?
    /// The time at which the token became invalid, in milliseconds since 1970 (UTC). Delete the token only if it was
    /// registered before this time.
    public var unregisteredAtMs: Int64?
    /// An upper bound on the number of sends, including sends in doubt.
    public var attempts: Int
    /// The number of sends whose outcome is unknown. If it is above 0, the device may have shown the notification more
    /// than once.
    public var inDoubt: Int
    /// The request record's timestamp in milliseconds since 1970 (UTC), or 0 if the record has no valid timestamp.
    public var requestedAtMs: Int64
    /// The time of the last send, in milliseconds since 1970 (UTC). `nil` if the worker that wrote the result did not
    /// send the notification.
    public var sentAtMs: Int64?
    /// The time at which the worker wrote the result, in milliseconds since 1970 (UTC).
    public var settledAtMs: Int64
    /// The identity of the notification: the position of its request record, and the index in this record.
    public var request: Request

    /// Creates a result with an empty request.
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
    /// The device token, or `nil` if it is invalid or the notification is a broadcast.
    public var device: DeviceToken? { deviceToken.flatMap { try? DeviceToken(hex: $0) } }

    /// Whether the outcome of at least one send is unknown. The device may have shown the notification more than once,
    /// or shown the notification although the outcome is not `accepted`.
    public var isInDoubt: Bool { inDoubt > 0 }
}

extension DeliveryResult {
    /// Creates a result from a record's value. Ignores unknown members and treats `null` as absent.
    ///
    /// Throws if the value is not JSON, a required member is missing, or a member has the wrong type or an unknown
    /// value, such as an `outcome` that only newer workers write.
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
    /// Creates a request from the text `topic/partition/offset/index`.
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
    /// Creates an environment from its name in records and configurations.
    public init?(text: String) {
        guard let environment = Self.allCases.first(where: { $0.text.description == text }) else { return nil }
        self = environment
    }
}

/// The outcome of a notification. Each notification has exactly one.
public enum Outcome: String, CaseIterable, Sendable {
    /// APNs accepted the notification (status 200).
    case accepted
    /// The device token is no longer valid (status 410). The worker also writes a record to `apns.unregistered`, unless
    /// the 410 has no timestamp.
    case unregistered
    /// APNs rejected the notification. Do not send it again unchanged.
    case rejected
    /// The worker rejected the request and did not send the notification.
    case invalid
    /// The `apns-expiration` or the worker's `delivery.max_age` passed before APNs accepted the notification, or a
    /// notification with expiration 0 would have needed a later retry.
    case expired
    /// The worker gave up, usually because all retries failed, or because of `delivery.in_doubt: abandon`.
    case abandoned
}

/// The environment of an app: production or development (sandbox).
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

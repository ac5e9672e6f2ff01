/// A dead device token: a record of `apns.unregistered`.
///
/// Delete the token only if it was registered before `unregisteredAtMs`: a device may have registered it again.
///
/// ```swift
/// let dead = try UnregisteredToken(json: message.value)
/// if let row = tokens[dead.deviceToken], dead.isDead(registeredAtMs: row.registeredAtMs) { tokens.remove(row) }
/// ```
public struct UnregisteredToken: Hashable, Sendable {
    /// Lower-case hex.
    public var deviceToken: String
    /// The topic that Apple's answer is about.
    public var apnsTopic: String?
    /// The app of the worker's configuration.
    public var app: String?
    /// The app's environment.
    public var environment: PushEnvironment?
    /// `Unregistered`, `Feedback`, or a reason of `unregistered.include_bad_tokens`.
    public var reason: Reason?
    /// When it died, in milliseconds since the epoch: Apple's time, or for a bad token the time of the send. The worker
    /// always writes one.
    public var unregisteredAtMs: Int64?
    /// When the worker wrote the record.
    public var observedAtMs: Int64

    /// Whether a token that was registered at that time (in milliseconds since the epoch, the last time the app sent
    /// it) should be deleted, because it died later. Without a time of death the record's time counts.
    public func isDead(registeredAtMs: Int64) -> Bool { registeredAtMs < unregisteredAtMs ?? observedAtMs }
}

extension UnregisteredToken {
    /// Reads a dead-token record's value. Unknown members are ignored; `null` counts as absent.
    ///
    /// Throws if it is not JSON, a member has a wrong type, or one that every such record has is missing.
    public init(json: some Collection<UInt8>) throws(RecordError) {
        self = try RecordReader.read(json) { (reader) throws(RecordError) in try UnregisteredToken(&reader) }
    }

    private init(_ reader: inout RecordReader) throws(RecordError) {
        var deviceToken: String?
        var observedAtMs: Int64?
        while let member = reader.next() {
            switch member {
            case "device_token": deviceToken = try reader.text()
            case "apns_topic": apnsTopic = try reader.optionalText()
            case "app": app = try reader.optionalText()
            case "environment": environment = try reader.optionalWord { PushEnvironment(text: $0) }
            case "reason":
                // Not with `map`, which Swift 6.3.1 miscompiled here.
                if let text = try reader.optionalText() { reason = Reason(rawValue: text) }
            case "unregistered_at_ms": unregisteredAtMs = try reader.optionalInteger()
            case "observed_at_ms": observedAtMs = try reader.integer()
            default: reader.skip()
            }
        }
        self.deviceToken = try deviceToken.required("device_token")
        self.observedAtMs = try observedAtMs.required("observed_at_ms")
    }
}

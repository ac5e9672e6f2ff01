/// A record of `apns.unregistered`: a device token that is no longer valid.
///
/// Delete the token only if the app registered it before `unregisteredAtMs`. The device may have registered the token
/// again since that time.
///
/// ```swift
/// let dead = try UnregisteredToken(json: message.value)
/// if let row = tokens[dead.deviceToken], dead.isDead(registeredAtMs: row.registeredAtMs) { tokens.remove(row) }
/// ```
public struct UnregisteredToken: Hashable, Sendable {
    /// The device token in lower-case hex.
    public var deviceToken: String
    /// The `apns-topic` of the notification that APNs rejected for this token. For a token from the feedback service,
    /// it is the app's first bundle id.
    public var apnsTopic: String?
    /// The name of the app in the worker's configuration.
    public var app: String?
    /// The environment of the app.
    public var environment: PushEnvironment?
    /// Apple's reason, such as `Unregistered`, or `Feedback` for a token from the feedback service.
    public var reason: Reason?
    /// The time at which the token became invalid, in milliseconds since 1970 (UTC). It is the time that APNs or the
    /// feedback service returned, or else the time of the send. The worker always writes this member.
    public var unregisteredAtMs: Int64?
    /// The time at which the worker wrote the record, in milliseconds since 1970 (UTC).
    public var observedAtMs: Int64

    /// Returns whether to delete a token that the app last registered at `registeredAtMs` (milliseconds since 1970),
    /// because the token became invalid later. Uses `observedAtMs` if the record has no `unregisteredAtMs`.
    public func isDead(registeredAtMs: Int64) -> Bool { registeredAtMs < unregisteredAtMs ?? observedAtMs }
}

extension UnregisteredToken {
    /// Creates an unregistered token from a record's value. Ignores unknown members and treats `null` as absent.
    ///
    /// Throws if the value is not JSON, a member has the wrong type, or a required member is missing.
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
                // Avoid `map` here, because Swift 6.3.1 miscompiles it.
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

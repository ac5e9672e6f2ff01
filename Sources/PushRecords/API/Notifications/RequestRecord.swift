import JSON

/// A header of a Kafka record.
public struct HeaderField: Hashable, Sendable, CustomStringConvertible {
    /// The header's name. Kafka header names are case-sensitive.
    public var name: String
    /// The header's value, which can be any bytes.
    public var value: [UInt8]

    /// Creates a header whose value is bytes.
    public init(_ name: String, _ value: [UInt8]) {
        self.name = name
        self.value = value
    }

    /// Creates a header whose value is UTF-8 text.
    public init(_ name: String, _ value: String) { self.init(name, Array(value.utf8)) }

    /// The value as text. Invalid UTF-8 is replaced by U+FFFD.
    public var text: String { String(decoding: value, as: UTF8.self) }

    /// The header as `name=value`, the format of `kcat -H`.
    public var description: String { "\(name)=\(text)" }
}

/// A record for a request topic (`apns.requests`), which any Kafka client can produce.
///
/// Produce the record with `acks=all`. The key selects the partition, and the worker keeps the order of a device's
/// requests within one partition. Do not change the key if order matters.
///
/// ```swift
/// var record = try notification.payloadRecord(to: token)
/// record.headers.append(HeaderField("traceparent", span.traceparent))   // is copied to the result
/// ```
public struct RequestRecord: Hashable, Sendable {
    /// The largest number of devices in one envelope record.
    public static var deviceLimit: Int { RequestParser.tokenLimit }

    /// The record's key, or `nil` to let the producer choose the partition.
    public var key: [UInt8]?
    /// The record's value: the payload, or the envelope that contains it.
    public var value: [UInt8]
    /// The record's headers, in order. You can append your own headers.
    public var headers: [HeaderField]

    /// Creates a record without validating it.
    public init(key: [UInt8]?, value: [UInt8], headers: [HeaderField]) {
        self.key = key
        self.value = value
        self.headers = headers
    }
}

extension RequestRecord {
    /// Returns the record if the worker's parser accepts it in the given form, or throws the parser's error.
    func checked(form: ParsedRequest.Form) throws(RequestError) -> RequestRecord {
        let copy = OwnedRecord(
            key: key, value: value, headers: headers.map { OwnedRecord.Header(Array($0.name.utf8), $0.value) })
        let error: RequestError? = copy.withLent { key, value, headers in
            var parser = RequestParser()
            let request = parser.parse(key: key, value: value, headers: headers, role: .request)
            if request.form != form {
                return RequestError(
                    .badRequestPayload,
                    "the payload has the members of an envelope and no aps; create an envelope record for this payload")
            }
            if request.deadLetter == .notJSON {
                // This error only occurs in payload form, because `envelope` has already validated an envelope's
                // payload.
                let offset = String(decoding: request.detail.subject, as: UTF8.self)
                return RequestError(
                    .badRequestPayload, "the payload is not JSON: \(request.detail.text) \(offset)")
            }
            guard request.target == .none || request.isInvalid else { return nil }
            return RequestError(request.failureReason, request.detail)
        }
        if let error { throw error }
        return self
    }
}

extension PushNotification {
    /// Returns the record in payload form for one device. The value is the payload, and the key is the device token.
    /// Prefer this form for single devices.
    ///
    /// Throws if the worker would reject the record.
    public func payloadRecord(to token: DeviceToken) throws(RequestError) -> RequestRecord {
        var headers = fields(isBroadcast: false)
        // The worker uses a key as the device token only if the key has at least 64 hex digits.
        if token.hex.utf8.count < 64 { headers.append(HeaderField(.deviceToken, token.hex)) }
        return try RequestRecord(key: Array(token.hex.utf8), value: payload.json(), headers: headers)
            .checked(form: .payload)
    }

    /// Returns a record in envelope form, without a key, for up to `RequestRecord.deviceLimit` devices. Each device has
    /// its own notification and result. `DeliveryResult.Request.index` is the token's position, counted from 0.
    ///
    /// Throws if the worker would reject the record.
    public func envelopeRecord(to tokens: some Collection<DeviceToken>) throws(RequestError) -> RequestRecord {
        try envelope(key: nil, tokens.count * 80, isBroadcast: false) { json in
            json.name("device_tokens")
            json.beginArray()
            for token in tokens { json.value(token.hex) }
            json.endArray()
        }
    }
}

extension PushNotification where Payload: BroadcastPayload {
    /// Returns the record in payload form for a broadcast on a channel. The push type must be `liveactivity`. Set the
    /// expiration: a channel that stores no messages accepts `nowOrNever` only.
    ///
    /// Throws if the worker would reject the record. Source: "Sending broadcast push notification requests to APNs".
    public func payloadRecord(toChannel channelID: String) throws(RequestError) -> RequestRecord {
        try RequestRecord(
            key: Array(channelID.utf8), value: payload.json(),
            headers: fields(isBroadcast: true) + [HeaderField(.channelID, channelID)]
        ).checked(form: .payload)
    }

    /// Returns the record in envelope form for a broadcast on a channel. The rules of `payloadRecord(toChannel:)`
    /// apply.
    public func envelopeRecord(toChannel channelID: String) throws(RequestError) -> RequestRecord {
        try envelope(key: Array(channelID.utf8), 0, isBroadcast: true) { json in json.member("channel_id", channelID) }
    }
}

extension PushNotification {
    private func envelope(
        key: [UInt8]?, _ room: Int, isBroadcast: Bool, _ target: (inout JSONWriter) -> Void
    ) throws(RequestError) -> RequestRecord {
        let payload = try payload.json()
        // Validate the payload first: if it were not exactly one JSON value, its bytes could become members of the
        // envelope.
        if payload.isEmpty { throw RequestError(.payloadEmpty, "the payload is empty") }
        if let error = payload.withUnsafeBytes({ JSONScanner.scan($0).error }) {
            throw RequestError(.badRequestPayload, "the payload is not JSON: \(error)")
        }
        var json = JSONWriter(capacity: room + payload.count + 1_024)
        json.beginObject()
        target(&json)
        if let app { json.member("app", app) }
        if let environment { json.member("environment", environment.text) }
        if let notBefore { json.member("not_before", notBefore.secondsSinceEpoch) }
        json.member("headers") { json in
            for header in fields(isBroadcast: isBroadcast) where header.name.hasPrefix("apns-") {
                json.member(header.name, header.text)
            }
        }
        json.name("payload")
        payload.withUnsafeBytes { json.value(json: $0) }
        json.endObject()
        return try RequestRecord(key: key, value: Array(json.bytes), headers: []).checked(form: .envelope)
    }

    /// Returns the headers of a record in payload form, except those that name the device or channel.
    private func fields(isBroadcast: Bool) -> [HeaderField] {
        var fields = [HeaderField(.pushType, pushType.text.description)]
        if let topic { fields.append(HeaderField(.topic, topic.text(pushType, isBroadcast: isBroadcast))) }
        if let priority { fields.append(HeaderField(.priority, String(priority.priority.rawValue))) }
        switch expiration {
        case .appleDefault: break
        case .nowOrNever: fields.append(HeaderField(.expiration, "0"))
        case .at(let seconds): fields.append(HeaderField(.expiration, String(seconds)))
        }
        if let collapse { fields.append(HeaderField(.collapseID, collapse)) }
        if let apnsID { fields.append(HeaderField(.apnsID, apnsID.description)) }
        if let app { fields.append(HeaderField(.app, app)) }
        if let environment { fields.append(HeaderField(.environment, environment.text.description)) }
        if let notBefore { fields.append(HeaderField(.notBefore, String(notBefore.secondsSinceEpoch))) }
        return fields
    }
}

extension HeaderField {
    fileprivate init(_ name: HeaderName, _ value: String) { self.init(name.text.description, value) }
}

/// The error that the worker would report for a notification.
///
/// ```swift
/// do {
///     try producer.send(notification.payloadRecord(to: token))
/// } catch where error.reason == .payloadTooLarge {
///     …
/// }
/// ```
public struct RequestError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The `reason` in the worker's result, or `nil` if Apple has no reason for this error.
    public var reason: Reason?
    /// A human-readable explanation, which names the header or member at fault.
    public var detail: String

    /// The reason and the detail, or the detail alone. For example,
    /// `BadCollapseId: apns-collapse-id must be printable ASCII of 1 to 64 bytes`.
    public var description: String { reason.map { "\($0.rawValue): \(detail)" } ?? detail }

    init(_ reason: ReasonCode, _ detail: String) {
        self.reason = reason.reason
        self.detail = detail
    }

    init(_ reason: ReasonCode, _ detail: borrowing Detail) {
        let subject = detail.subject.cut(Detail.subjectLimit)
        let text = detail.text.description
        self.init(reason, subject.count == 0 ? text : "\(text): \(String(decoding: subject, as: UTF8.self))")
    }
}

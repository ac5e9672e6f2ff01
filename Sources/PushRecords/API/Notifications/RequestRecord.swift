import JSON

/// A header of a Kafka record, in memory of its own.
public struct HeaderField: Hashable, Sendable, CustomStringConvertible {
    /// In exactly this spelling: Kafka's headers know upper and lower case.
    public var name: String
    /// Any bytes.
    public var value: [UInt8]

    /// A header of bytes.
    public init(_ name: String, _ value: [UInt8]) {
        self.name = name
        self.value = value
    }

    /// A header of text.
    public init(_ name: String, _ value: String) { self.init(name, Array(value.utf8)) }

    /// The value as text; what is not UTF-8 in it is replaced.
    public var text: String { String(decoding: value, as: UTF8.self) }

    /// `name=value`, as `kcat -H` takes it.
    public var description: String { "\(name)=\(text)" }
}

/// A record for a request topic (`apns.requests`), to be produced with whatever Kafka client there is.
///
/// Produce it with `acks=all`, as for anything that is not to be lost. The key decides the partition, and requests of
/// one partition reach a device in order: leave the key as it is where order matters.
///
/// ```swift
/// var record = try notification.payloadRecord(to: token)
/// record.headers.append(HeaderField("traceparent", span.traceparent))   // is copied to the result
/// ```
public struct RequestRecord: Hashable, Sendable {
    /// Most devices of one record, in envelope form.
    public static var deviceLimit: Int { RequestParser.tokenLimit }

    /// `nil`: none; any partition will do.
    public var key: [UInt8]?
    /// The payload, or the envelope around it.
    public var value: [UInt8]
    /// In this order; add your own behind them.
    public var headers: [HeaderField]

    /// A record as it is; nothing is checked.
    public init(key: [UInt8]?, value: [UInt8], headers: [HeaderField]) {
        self.key = key
        self.value = value
        self.headers = headers
    }
}

extension RequestRecord {
    /// Throws what the worker would find wrong with it: by the worker's own parser, so that the rules are the same.
    func checked(form: ParsedRequest.Form) throws(RequestError) -> RequestRecord {
        // One range of bytes for all headers, so that they can be lent together.
        var text: [UInt8] = []
        var ends: [(name: Int, value: Int)] = []
        for header in headers {
            text += header.name.utf8
            let name = text.count
            text += header.value
            ends.append((name: name, value: text.count))
        }
        let error = text.withUnsafeBytes { text in
            var start = 0
            let lent = ends.map { end in
                defer { start = end.value }
                return RecordHeader(name: text.lent(start, end.name), value: text.lent(end.name, end.value))
            }
            return lent.withUnsafeBufferPointer { headers in
                value.withUnsafeBytes { value in
                    guard let key else { return Self.fault(.nothing, value.lent(0, value.count), headers, form) }
                    return key.withUnsafeBytes {
                        Self.fault($0.lent(0, $0.count), value.lent(0, value.count), headers, form)
                    }
                }
            }
        }
        if let error { throw error }
        return self
    }

    private static func fault(
        _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ headers: UnsafeBufferPointer<RecordHeader>,
        _ form: ParsedRequest.Form
    ) -> RequestError? {
        var parser = RequestParser()
        let request = parser.parse(key: key, value: value, headers: headers, role: .request)
        if request.form != form {
            return RequestError(
                .badRequestPayload,
                "the payload has the members of an envelope and no aps: only an envelope record can carry it")
        }
        if request.deadLetter == .notJSON {
            // In an envelope it was looked at before.
            let place = String(decoding: request.detail.subject, as: UTF8.self)
            return RequestError(.badRequestPayload, "the payload is not JSON: \(request.detail.text) \(place)")
        }
        if request.target == .none || request.isInvalid { return RequestError(request.failureReason, request.detail) }
        return nil
    }
}

extension UnsafeRawBufferPointer {
    /// A part of lent bytes that has an address even when it is empty: what is there, but has no bytes.
    fileprivate func lent(_ start: Int, _ end: Int) -> UnsafeRawBufferPointer {
        guard let baseAddress else { return ("" as StaticString).lentBytes }
        return UnsafeRawBufferPointer(start: baseAddress + start, count: end - start)
    }
}

// The records of a notification, in both forms.

extension PushNotification {
    /// The record in payload form for one device: the value is the payload, the key the device token. The form to
    /// prefer.
    ///
    /// Throws what the worker would refuse.
    public func payloadRecord(to token: DeviceToken) throws(RequestError) -> RequestRecord {
        var headers = fields(isBroadcast: false)
        // The worker takes a key for a token from 64 digits on.
        if token.hex.utf8.count < 64 { headers.append(HeaderField(.deviceToken, token.hex)) }
        return try RequestRecord(key: Array(token.hex.utf8), value: payload.json(), headers: headers)
            .checked(form: .payload)
    }

    /// One record for many devices, at most `RequestRecord.deviceLimit`: each gets a notification and a result of its
    /// own, in the order of the list (`DeliveryResult.Request.index`). It has no key.
    ///
    /// Throws what the worker would refuse.
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
    /// The record in payload form for a broadcast to all who listen to a channel; its push type must be `liveactivity`.
    /// Say its expiration: a channel that stores nothing takes `nowOrNever` only.
    ///
    /// Throws what the worker would refuse. Source: "Sending broadcast push notification requests to APNs".
    public func payloadRecord(toChannel channelID: String) throws(RequestError) -> RequestRecord {
        try RequestRecord(
            key: Array(channelID.utf8), value: payload.json(),
            headers: fields(isBroadcast: true) + [HeaderField(.channelID, channelID)]
        ).checked(form: .payload)
    }

    /// The record in envelope form for a broadcast to all who listen to a channel; its push type must be
    /// `liveactivity`. Say its expiration: a channel that stores nothing takes `nowOrNever` only.
    ///
    /// Throws what the worker would refuse. Source: "Sending broadcast push notification requests to APNs".
    public func envelopeRecord(toChannel channelID: String) throws(RequestError) -> RequestRecord {
        try envelope(key: Array(channelID.utf8), 0, isBroadcast: true) { json in json.member("channel_id", channelID) }
    }
}

extension PushNotification {
    private func envelope(
        key: [UInt8]?, _ room: Int, isBroadcast: Bool, _ target: (inout JSONWriter) -> Void
    ) throws(RequestError) -> RequestRecord {
        let payload = try payload.json()
        // By itself first: otherwise bytes behind its end could pass for further members of the envelope.
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

    /// What it says beside its payload and its target, as headers of the payload form.
    private func fields(isBroadcast: Bool) -> [HeaderField] {
        var fields = [HeaderField(.pushType, pushType.text.description)]
        if let topic { fields.append(HeaderField(.topic, topic.text(pushType, isBroadcast: isBroadcast))) }
        if let priority { fields.append(HeaderField(.priority, String(priority.priority.rawValue))) }
        switch expiration {
        case .appleDefault: break
        case .nowOrNever: fields.append(HeaderField(.expiration, "0"))
        case .at(let seconds): fields.append(HeaderField(.expiration, String(seconds)))
        }
        for header in TextHeader.allCases {
            if let text = self[header] { fields.append(HeaderField(header.row.name.description, text)) }
        }
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

/// Why a notification cannot be asked for: what the worker would have said of the same record, said before it is
/// produced.
///
/// ```swift
/// do {
///     try producer.send(notification.payloadRecord(to: token))
/// } catch where error.reason == .payloadTooLarge {
///     …
/// }
/// ```
public struct RequestError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The `reason` of the result that the worker would have published; `nil` where Apple has no word for it.
    public var reason: Reason?
    /// In words, for people; names the header or member that is at fault.
    public var detail: String

    /// `BadCollapseId: apns-collapse-id must be printable ASCII of 1 to 64 bytes`, or the detail alone.
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

import JSON

// The records of a notification, in both forms.

extension PushNotification {
    /// Most devices of one envelope.
    public static let deviceLimit = RequestParser.tokenLimit

    /// The record in payload form for one device: the value is the payload, the key the device token. The form to prefer.
    ///
    /// Throws what the worker would refuse.
    public func payloadRecord(to token: DeviceToken) throws(RequestError) -> RequestRecord {
        var headers = fields
        // The worker takes a key for a token from 64 digits on.
        if token.hex.utf8.count < 64 { headers.append(field(.deviceToken, token.hex)) }
        return try RequestRecord(key: Array(token.hex.utf8), value: payload, headers: headers).checked(form: .payload)
    }

    /// The record in payload form for a broadcast to all who listen to a channel; its push type must be `liveactivity`.
    ///
    /// Throws what the worker would refuse.
    public func payloadRecord(toChannel channelID: String) throws(RequestError) -> RequestRecord {
        try RequestRecord(
            key: Array(channelID.utf8), value: payload, headers: fields + [field(.channelID, channelID)]
        ).checked(form: .payload)
    }

    /// One record for many devices, at most `deviceLimit`: each gets a notification and a result of its own, in the order
    /// of the list (`DeliveryResult.Request.index`). It has no key.
    ///
    /// Throws what the worker would refuse.
    public func envelopeRecord(to tokens: some Collection<DeviceToken>) throws(RequestError) -> RequestRecord {
        try envelope(key: nil, tokens.count * 80) { json in
            json.name("device_tokens")
            json.beginArray()
            for token in tokens { json.value(token.hex) }
            json.endArray()
        }
    }

    /// The record in envelope form for a broadcast to all who listen to a channel; its push type must be `liveactivity`.
    ///
    /// Throws what the worker would refuse.
    public func envelopeRecord(toChannel channelID: String) throws(RequestError) -> RequestRecord {
        try envelope(key: Array(channelID.utf8), 0) { json in json.member("channel_id", channelID) }
    }

    private func envelope(
        key: [UInt8]?, _ room: Int, _ target: (inout JSONWriter) -> Void
    ) throws(RequestError) -> RequestRecord {
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
        json.member("headers") { json in
            for header in fields where header.name.hasPrefix("apns-") { json.member(header.name, header.text) }
        }
        json.name("payload")
        payload.withUnsafeBytes { json.value(json: $0) }
        json.endObject()
        return try RequestRecord(key: key, value: Array(json.bytes), headers: []).checked(form: .envelope)
    }

    /// What it says beside its payload and its target, as headers of the payload form.
    private var fields: [HeaderField] {
        var fields = [field(.pushType, pushType.text.description)]
        if let topic { fields.append(field(.topic, topic)) }
        if let priority { fields.append(field(.priority, String(priority.rawValue))) }
        switch expiration {
        case .never: break
        case .nowOrNever: fields.append(field(.expiration, "0"))
        case .at(let seconds): fields.append(field(.expiration, String(seconds)))
        }
        for header in TextHeader.allCases {
            guard let text = self[keyPath: header.property] else { continue }
            fields.append(HeaderField(header.row.name.description, text))
        }
        if let apnsID { fields.append(field(.apnsID, apnsID.description)) }
        if let app { fields.append(field(.app, app)) }
        if let environment { fields.append(field(.environment, environment.text.description)) }
        return fields
    }

    private func field(_ name: HeaderName, _ value: String) -> HeaderField {
        HeaderField(name.text.description, value)
    }
}

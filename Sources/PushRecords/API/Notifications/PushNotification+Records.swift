import JSON

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

import JSON

extension RequestParser {
    mutating func envelopeForm(
        _ request: inout ParsedRequest, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ scan: JSONScan, _ names: NotableNames
    ) {
        scratch.removeTexts()
        guard readTarget(&request) else { return }
        request.keepKey(key)
        if envelope.duplicate.baseAddress != nil {
            request.fail(.none, "a member occurs twice", envelope.duplicate)
        }
        if envelope.unknown.baseAddress != nil {
            request.fail(.none, "an envelope has no such member", meantMember(envelope.unknown))
        }
        if names.instruction.baseAddress != nil {
            request.fail(
                .none,
                "a request in envelope form must have its headers inside the envelope, not in the record's headers",
                names.instruction)
        }
        fields.removeAll()
        readHeaders(&request)
        addText(.app, envelope[.app], &request, "app must be a string")
        addText(.environment, envelope[.environment], &request, "environment must be a string")
        // Add the JSON value of `not_before` unparsed, so that `readNotBefore` rejects a string.
        if let value = envelope[.notBefore] { _ = fields.add(.notBefore, value) }
        readFields(&request)
        if request.tokenCount > 1 && request.headers.apnsID != .none {
            request.fail(.badMessageId, "an apns-id cannot be used for several device tokens")
        }
        if let payload = envelope[.payload] {
            request.payload = payload
            // The unpaired surrogate that the scan found may be outside the payload, so scan the payload alone.
            let half = scan.halfSurrogate == nil ? nil : JSONScanner.scan(payload).halfSurrogate
            let start = half == nil ? 0 : payload.baseAddress! - value.baseAddress!
            checkPayload(&request, JSONScanner.kind(of: payload[0]), half: half.map { start + $0 })
        } else {
            checkPayload(&request, .null, half: nil)
        }
    }

    /// Returns an unknown member's name with the closest known name as a suggestion: a member of envelopes, or a
    /// header, which belongs in the member `headers`. Returns the name alone if no known name is close enough.
    mutating func meantMember(_ name: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var nearest = NearestName(to: name)
        for member in EnvelopeTable.Name.allCases where member != .aps { nearest.consider(member.text) }
        if let member = nearest.text { return scratch.suggestion(member, for: name) }
        return scratch.suggestion(HeaderName.nearest(to: name, inEnvelope: true), of: "headers.", for: name)
    }

    /// Reads the device tokens or the channel id. Returns `false` and marks the record as a dead letter if the envelope
    /// does not have exactly one target, if the target has the wrong type, or if its list is empty or too long.
    private mutating func readTarget(_ request: inout ParsedRequest) -> Bool {
        switch (envelope[.deviceToken], envelope[.deviceTokens], envelope[.channelID]) {
        case (let token?, nil, nil):
            request.tokenCount = 1
            if let text = string(token) {
                (request.target, request.token) = (.device, text)
            } else {
                request.markDeadLetter(.badEnvelope, "device_token must be a string")
            }
        case (nil, let list?, nil):
            if list[0] == UInt8(ascii: "["), let count = JSONStringList.count(in: list) {
                request.target = .devices
                request.tokenList = list
                request.tokenCount = count
                if count == 0 { request.markDeadLetter(.noDeviceToken, "device_tokens is empty") }
                if count > Self.tokenLimit {
                    request.markDeadLetter(.tooManyTokens, "device_tokens has more than 10000 tokens")
                }
            } else {
                request.markDeadLetter(.badEnvelope, "device_tokens must be a list of strings")
            }
        case (nil, nil, let channel?):
            request.tokenCount = 1
            if let text = string(channel) {
                (request.target, request.channelID) = (.channel, text)
            } else {
                request.markDeadLetter(.badEnvelope, "channel_id must be a string")
            }
        case (nil, nil, nil):
            request.markDeadLetter(.noDeviceToken, "device_token, device_tokens or channel_id must not be null")
        case (_?, _, _), (_, _?, _):
            request.markDeadLetter(
                .badEnvelope, "an envelope must have only one of device_token, device_tokens and channel_id")
        }
        return request.deadLetter == nil
    }

    /// Adds the members of the envelope's `headers` to the field table.
    private mutating func readHeaders(_ request: inout ParsedRequest) {
        guard let headers = envelope[.headers] else { return }
        guard headers[0] == UInt8(ascii: "{") else {
            return request.fail(.none, "headers must be an object of header names and values")
        }
        let members = scratch.headerMembers
        let count = JSONScanner.scan(headers, members: members).memberCount
        guard count <= members.count else {
            return request.fail(.none, "headers has too many members")
        }
        for member in members[..<count] {
            let text = headers.part(member.nameStart, member.nameEnd)
            guard let name = HeaderName(scratch.resolve(text)), name.isOfEnvelope else {
                let nearest = HeaderName.nearest(to: text, inEnvelope: true)
                request.fail(.none, "headers has no such member", scratch.suggestion(nearest, for: text))
                continue
            }
            let value = headers.part(member.valueStart, member.valueEnd)
            if !fields.add(name, fieldValue(name, value, &request)) {
                request.fail(.duplicateHeaders, "a header occurs twice", text)
            }
        }
    }

    /// Returns a header's value as text, or a buffer without an address if the JSON value is `null` or has the wrong
    /// type. A wrong type also makes the request invalid.
    private mutating func fieldValue(
        _ name: HeaderName, _ value: UnsafeRawBufferPointer, _ request: inout ParsedRequest
    ) -> UnsafeRawBufferPointer {
        switch JSONScanner.kind(of: value[0]) {
        case .string: return string(value) ?? .nothing
        case .null: return .nothing
        case .number where name.isNumber: return value
        case .number, .object, .array, .bool:
            request.fail(
                name.badValue,
                name.isNumber
                    ? "a header's value must be a string or a number" : "a header's value must be a string",
                name.text.lentBytes)
            return .nothing
        }
    }

    private mutating func addText(
        _ name: HeaderName, _ value: UnsafeRawBufferPointer?, _ request: inout ParsedRequest, _ complaint: StaticString
    ) {
        guard let value else { return }
        guard let text = string(value) else { return request.fail(.none, complaint) }
        _ = fields.add(name, text)
    }

    /// Returns the text of a JSON string, or `nil` for a JSON value of another type.
    private mutating func string(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard value[0] == UInt8(ascii: "\"") else { return nil }
        return scratch.resolve(value.part(1, value.count - 1))
    }
}

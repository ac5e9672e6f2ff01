import JSON

extension RequestParser {
    /// The second half of parsing a record whose value is an envelope.
    mutating func envelopeForm(
        _ request: inout ParsedRequest, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ scan: JSONScan,
        _ known: KnownHeaders
    ) {
        scratch.removeTexts()
        guard readTarget(&request) else { return }
        request.keepKey(key)
        if envelope.duplicate.baseAddress != nil {
            request.fail(RequestFault(.none, "a member that comes twice", envelope.duplicate))
        }
        if envelope.unknown.baseAddress != nil {
            request.fail(RequestFault(.none, "an envelope has no such member", meantMember(envelope.unknown)))
        }
        if known.own.baseAddress != nil {
            request.fail(RequestFault(.none, "an envelope's headers belong into it, not to the record", known.own))
        }
        fields.removeAll()
        readHeaders(&request)
        addText(.app, envelope[.app], &request, "app must be a string")
        addText(.environment, envelope[.environment], &request, "environment must be a string")
        // As it is written: what is no number of seconds is refused as such.
        if let value = envelope[.notBefore] { _ = fields.add(KnownHeader(.notBefore), value) }
        readFields(&request)
        if request.tokenCount > 1 && request.headers.apnsID != .none {
            request.fail(RequestFault(.badMessageId, "one apns-id for several device tokens"))
        }
        if let payload = envelope[.payload] {
            request.payload = payload
            // What is noted may be in another member.
            let half = scan.halfSurrogate == nil ? nil : JSONScanner.scan(payload).halfSurrogate
            let start = half == nil ? 0 : payload.baseAddress! - value.baseAddress!
            checkPayload(&request, JSONScanner.kind(of: payload[0]), half: half.map { start + $0 })
        } else {
            checkPayload(&request, .null, half: nil)
        }
    }

    /// A name that an envelope does not have, with the member that is meant by it, or the header, which belongs into
    /// `headers`.
    mutating func meantMember(_ name: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        if let meant = EnvelopeTable.Name(nearest: name) { return scratch.suggestion(meant.text, for: name) }
        if let header = KnownHeader(nearest: name, inEnvelope: true) {
            return scratch.suggestion(header.text, of: "headers.", for: name)
        }
        return name
    }

    /// Finds the tokens or the channel; `false` when none can be read, and the record is a dead letter.
    private mutating func readTarget(_ request: inout ParsedRequest) -> Bool {
        switch (envelope[.deviceToken], envelope[.deviceTokens], envelope[.channelID]) {
        case (let token?, nil, nil):
            guard let text = string(token) else {
                request.bury(.badEnvelope, Detail("device_token must be a string"))
                return false
            }
            request.target = .device
            request.token = text
            request.tokenCount = 1
        case (nil, let list?, nil):
            guard list[0] == UInt8(ascii: "["), let count = JSONStringList.count(in: list) else {
                request.bury(.badEnvelope, Detail("device_tokens must be a list of strings"))
                return false
            }
            guard count > 0 else {
                request.bury(.noDeviceToken, Detail("device_tokens is empty"))
                return false
            }
            guard count <= Self.tokenLimit else {
                request.bury(.tooManyTokens, Detail("device_tokens has more than 10000"))
                return false
            }
            request.target = .devices
            request.tokenList = list
            request.tokenCount = count
        case (nil, nil, let channel?):
            guard let text = string(channel) else {
                request.bury(.badEnvelope, Detail("channel_id must be a string"))
                return false
            }
            request.target = .channel
            request.channelID = text
            request.tokenCount = 1
        case (nil, nil, nil):
            request.bury(.noDeviceToken, Detail("device_token, device_tokens or channel_id is null"))
            return false
        case (_?, _, _), (_, _?, _):
            request.bury(.badEnvelope, Detail("more than one of device_token, device_tokens and channel_id"))
            return false
        }
        return true
    }

    /// Puts the members of `headers` into the field table.
    private mutating func readHeaders(_ request: inout ParsedRequest) {
        guard let headers = envelope[.headers] else { return }
        guard headers[0] == UInt8(ascii: "{") else {
            request.fail(RequestFault(.none, "headers must be an object of names and values"))
            return
        }
        let members = scratch.headerMembers
        let count = JSONScanner.scan(headers, members: members).memberCount
        guard count <= members.count else {
            request.fail(RequestFault(.none, "headers has more members than there are headers"))
            return
        }
        for member in members[..<count] {
            let text = headers.part(member.nameStart, member.nameEnd)
            guard let name = KnownHeader(scratch.resolve(text)), name.isOfEnvelope else {
                request.fail(unknownHeader("headers has no such member", text, inEnvelope: true))
                continue
            }
            let value = headers.part(member.valueStart, member.valueEnd)
            if !fields.add(name, fieldValue(name, value, &request)) {
                request.fail(RequestFault(.duplicateHeaders, "a header that comes twice", text))
            }
        }
    }

    /// The value of a header as text: a string, or a number where Apple's header is one; no address for `null`, or
    /// after a fault.
    private mutating func fieldValue(
        _ name: KnownHeader, _ value: UnsafeRawBufferPointer, _ request: inout ParsedRequest
    ) -> UnsafeRawBufferPointer {
        switch JSONScanner.kind(of: value[0]) {
        case .string: return string(value) ?? .nothing
        case .null: return .nothing
        case .number where name.name == .priority || name.name == .expiration: return value
        case .number, .object, .array, .bool:
            let isNumber = name.name == .priority || name.name == .expiration
            request.fail(
                RequestFault(
                    name.badValue,
                    isNumber ? "a header's value must be a string or a number" : "a header's value must be a string",
                    name.text.lentBytes))
            return .nothing
        }
    }

    private mutating func addText(
        _ name: HeaderName, _ value: UnsafeRawBufferPointer?, _ request: inout ParsedRequest, _ complaint: StaticString
    ) {
        guard let value else { return }
        guard let text = string(value) else {
            request.fail(RequestFault(.none, complaint))
            return
        }
        _ = fields.add(KnownHeader(name), text)
    }

    /// What a JSON string spells; `nil` when the value is not one.
    private mutating func string(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard value[0] == UInt8(ascii: "\"") else { return nil }
        return scratch.resolve(value.part(1, value.count - 1))
    }
}

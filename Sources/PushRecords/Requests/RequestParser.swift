import JSON

/// A parser for records of request and retry topics, which validates borrowed bytes. It copies only escaped strings of
/// envelopes and allocates no memory for a valid record.
///
/// Not thread-safe. The parser does not throw. It marks an unreadable record as a dead letter, and sets `isInvalid` for
/// an incorrect one. The caller checks what depends on the configuration or the clock: the default topic, whether the
/// app has the topic and the push type, and whether the expiration has passed.
package struct RequestParser: ~Copyable {
    /// The largest number of tokens in one record.
    package static let tokenLimit = 10_000
    package static let payloadLimit = 4_096
    /// The maximum size of the payload of `voip` notifications and broadcasts, in bytes.
    package static let largePayloadLimit = 5_120

    var fields = ValueTable<HeaderName>()
    var copied: CopiedHeaders
    var envelope = EnvelopeTable()
    var scratch = Scratch()

    /// - Parameter copyHeaders: The names of headers to copy besides `traceparent`, `tracestate` and `push-replay-of`
    ///   (`results.copy_headers`).
    package init(copyHeaders: [String] = []) {
        copied = CopiedHeaders(copyHeaders)
    }

    /// Parses one record.
    ///
    /// - Parameters:
    ///   - key: The key, without a base address if the record has none.
    ///   - value: The value, without a base address for a tombstone. An empty value with an address is an empty
    ///   payload.
    package mutating func parse(
        key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        role: RecordRole
    ) -> ParsedRequest {
        let names = read(headers, role)
        var request = ParsedRequest(copiedHeaders: copied.list)
        fill(&request, key, value, names, role)
        return request
    }

    private mutating func fill(
        _ request: inout ParsedRequest, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ names: NotableNames, _ role: RecordRole
    ) {
        guard value.baseAddress != nil else { return request.markDeadLetter(.tombstone, "the value is null") }
        guard value.count > 0 else { return payloadForm(&request, key, value, .null, names, role) }
        let scan = JSONScanner.scan(value, members: scratch.members)
        if let error = scan.error {
            scratch.removeTexts()
            return request.markDeadLetter(.notJSON, scratch.foreign(value) ?? scratch.detail(of: error))
        }
        if case .object = scan.kind, role == .request, envelope.read(value, scan, scratch.members) {
            request.form = .envelope
            envelopeForm(&request, key, value, scan, names)
        } else {
            payloadForm(&request, key, value, scan.kind, names, role, half: scan.halfSurrogate)
        }
    }

    /// The names of headers that can make the request invalid. The checks run after all headers are read.
    struct NotableNames {
        /// The first known header name that occurs twice in the record.
        var duplicate: UnsafeRawBufferPointer = .nothing
        /// The first `apns-` or `push-` header of the record. The record of an envelope must not have one.
        var instruction: UnsafeRawBufferPointer = .nothing
        /// The first `apns-` or `push-` header that is not allowed in a request. Its name may be misspelled, reserved
        /// for the worker, or known only to a newer version.
        var unknown: UnsafeRawBufferPointer = .nothing

        mutating func noteUnknown(_ name: UnsafeRawBufferPointer) {
            if instruction.baseAddress == nil { instruction = name }
            if unknown.baseAddress == nil { unknown = name }
        }
    }

    /// Adds the record's headers to the field table, and returns the names that later checks report.
    private mutating func read(_ headers: UnsafeBufferPointer<RecordHeader>, _ role: RecordRole) -> NotableNames {
        fields.removeAll()
        copied.removeAll()
        var names = NotableNames()
        for header in headers {
            if let name = HeaderName(header.name) {
                let isCopied = copied.includesKnown && copied.consider(header)
                if name.isRetry && role == .request {
                    if !isCopied { names.noteUnknown(header.name) }
                    continue
                }
                if !fields.add(name, header.value) && names.duplicate.baseAddress == nil {
                    names.duplicate = header.name
                }
                if names.instruction.baseAddress == nil && header.value.baseAddress != nil {
                    names.instruction = header.name
                }
            } else if !copied.consider(header) && HeaderName.hasReservedPrefix(header.name) {
                names.noteUnknown(header.name)
            }
        }
        return names
    }

    // MARK: - Payload form

    private mutating func payloadForm(
        _ request: inout ParsedRequest, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ kind: JSONKind, _ names: NotableNames, _ role: RecordRole, half: Int? = nil
    ) {
        scratch.removeTexts()
        request.payload = value
        if let token = fields[.deviceToken] {
            if fields[.channelID] != nil {
                request.fail(.none, "a request must not have both push-device-token and apns-channel-id")
            } else if token.count == 0 {
                return request.markDeadLetter(.noDeviceToken, "push-device-token is empty")
            }
            request.target = .device
            request.token = token
        } else if let channel = fields[.channelID] {
            request.target = .channel
            request.channelID = channel
        } else if Self.isTokenKey(key) {
            request.target = .device
            request.token = key
        } else {
            return request.markDeadLetter(.noDeviceToken, scratch.foreign(key: key) ?? missingTarget(kind, role))
        }
        request.tokenCount = 1
        if role == .retry {
            guard let retry = RetryFields(fields) else {
                return request.markDeadLetter(
                    .badRetryHeaders, "the push-retry headers are missing or unreadable")
            }
            request.retry = retry
            request.key = (fields[.retryKey] ?? .nothing).cutText(RecordLimits.key)
            request.cutToken()
        } else {
            request.keepKey(key)
            // Reject unknown headers only in requests, because a newer worker's retry record may have headers that this
            // version does not recognize.
            if names.unknown.begins("push-retry-") {
                request.fail(
                    .none, "a request must not have push-retry headers, which only the worker writes", names.unknown)
            } else if names.unknown.baseAddress != nil {
                let nearest = HeaderName.nearest(to: names.unknown, inEnvelope: false)
                request.fail(.none, "unknown header", scratch.suggestion(nearest, for: names.unknown))
            }
        }
        if names.duplicate.baseAddress != nil {
            request.fail(.duplicateHeaders, "a header occurs twice", names.duplicate)
        }
        readFields(&request)
        checkPayload(&request, kind, half: half)
    }

    /// Returns the detail for a record in payload form that names no device or channel.
    private mutating func missingTarget(_ kind: JSONKind, _ role: RecordRole) -> Detail {
        // The envelope table is only valid for an object on a request topic.
        if case .object = kind, role == .request, envelope.lacksTarget {
            return Detail(
                "an envelope must have device_token, device_tokens or channel_id", meantMember(envelope.unknown))
        }
        return Detail("the record has no push-device-token, and its key is not a token of at least 64 hex digits")
    }

    /// Returns whether a record's key counts as the device token. It must have an even number of hex digits, at least
    /// 64.
    static func isTokenKey(_ key: UnsafeRawBufferPointer) -> Bool {
        key.count >= 64 && key.count & 1 == 0 && Hex.isHex(key)
    }

    /// Validates the payload's kind, text and size.
    ///
    /// - Parameter half: The offset of an unpaired surrogate in the record's value, if the payload has one. JSON's
    ///   grammar allows an unpaired surrogate, but RFC 7493 forbids it. APNs may accept it, but Foundation cannot parse
    ///   it, so the notification may be lost on the device.
    mutating func checkPayload(_ request: inout ParsedRequest, _ kind: JSONKind, half: Int?) {
        switch kind {
        case .object: break
        case .null: request.fail(.payloadEmpty, "the payload is empty")
        case .string:
            request.fail(.badRequestPayload, "the payload must be a JSON object, not a string (serialized twice?)")
        case .array, .number, .bool: request.fail(.badRequestPayload, "the payload must be a JSON object")
        }
        if let half {
            request.fail(
                .badRequestPayload, "the payload has an unpaired surrogate, as if a string was cut inside an emoji",
                scratch.add("at byte \(half)") ?? .nothing)
        }
        if request.target == .channel || request.headers.pushType == .voip {
            if request.payload.count > Self.largePayloadLimit {
                request.fail(.payloadTooLarge, "the payload has more than 5120 bytes")
            }
        } else if request.payload.count > Self.payloadLimit {
            request.fail(.payloadTooLarge, "the payload has more than 4096 bytes")
        }
    }
}

extension RequestParser {
    /// Validates the values in the field table and stores them in the request. The parser calls this function for both
    /// the payload form and the envelope form.
    mutating func readFields(_ request: inout ParsedRequest) {
        let isBroadcast = request.target == .channel
        if request.token.isQuoted, ForeignForm.isQuotedHex(request.token) {
            request.fail(.badDeviceToken, ForeignForm.quotedToken)
        }
        request.headers.pushType = isBroadcast ? .liveactivity : .alert
        if isBroadcast && !HeaderCheck.isClean(request.channelID, limit: RecordLimits.channelID) {
            request.refuse(.channelID, "a channel id must be printable ASCII of 1 to 200 bytes", request.channelID)
            request.channelID = request.channelID.cutText(RecordLimits.channelID)
        }
        if let value = fields[.topic] {
            request.headers.topic = value
            if !HeaderCheck.isClean(value, limit: RecordLimits.topic) {
                request.headers.topic = value.cutText(RecordLimits.topic)
                request.refuse(.topic, "apns-topic must be printable ASCII of 1 to 255 bytes", value)
            } else if isBroadcast && HeaderCheck.pushType(ofTopic: value) == .liveactivity {
                // `AppDirectory` also rejects such a topic. The parser checks the topic too, so that producers that
                // use this library get the error before they produce the record.
                request.fail(
                    .topicDisallowed, "a broadcast's topic must be the bundle id without a push type's suffix", value)
            }
        }
        if let value = fields[.pushType] {
            if let type = HeaderCheck.pushType(value) {
                request.headers.pushType = type
            } else {
                var nearest = NearestName(to: value)
                for type in PushType.allCases { nearest.consider(type.text) }
                request.refuse(
                    .pushType, "apns-push-type must be one of Apple's push types",
                    value.isQuoted ? value : scratch.suggestion(nearest.text, for: value))
            }
            if isBroadcast && request.headers.pushType != .liveactivity {
                request.fail(.invalidPushType, "a broadcast's apns-push-type must be liveactivity", value)
            }
        } else if !isBroadcast, let type = HeaderCheck.pushType(ofTopic: request.headers.topic) {
            request.headers.pushType = type
        }
        if let value = fields[.priority] {
            if let priority = HeaderCheck.priority(value) {
                request.headers.priority = priority
                if request.headers.pushType == .background && priority != 5 {
                    request.fail(.badPriority, "apns-priority of a background notification must be 5", value)
                }
            } else {
                request.refuse(.priority, "apns-priority must be 1, 5 or 10", value)
            }
        } else if request.headers.pushType == .background {
            request.headers.priority = 5
        }
        if let value = fields[.expiration] {
            if let seconds = HeaderCheck.unsigned(value), let expiration = UInt32(exactly: seconds) {
                request.headers.expiration = expiration
            } else {
                request.refuse(.expiration, "apns-expiration must be 0 to 4294967295 seconds since 1970", value)
            }
        }
        if let value = fields[.notBefore] { readNotBefore(value, &request) }
        if let value = fields[.collapseID] {
            request.headers.collapseID = value
            if !HeaderCheck.isClean(value, limit: RecordLimits.collapseID) {
                request.headers.collapseID = value.cutText(RecordLimits.collapseID)
                request.refuse(.collapseID, "apns-collapse-id must be printable ASCII of 1 to 64 bytes", value)
            }
        }
        if let value = fields[.apnsID] {
            if let id = NotificationUUID(text: value), id != .none {
                request.headers.apnsID = id
            } else {
                request.refuse(.apnsID, "apns-id must be a UUID other than the nil UUID", value)
            }
        }
        if let value = fields[.app] {
            // Store one byte more than the limit, so that a name that is too long cannot match another app.
            request.app = value.cut(RecordLimits.app + 1)
            if value.count == 0 { request.fail(.none, "the app's name must not be empty") }
            if value.count > RecordLimits.app || value.isQuoted {
                request.refuse(.app, "the app's name must have at most 100 bytes", value)
            }
        }
        if let value = fields[.environment] {
            if let environment = HeaderCheck.environment(value) {
                request.environment = environment
            } else {
                request.refuse(.environment, "the environment must be production or development", value)
            }
        }
    }

    /// Reads the earliest time at which to send the notification. This time must be before an expiration that is not 0.
    private func readNotBefore(_ value: UnsafeRawBufferPointer, _ request: inout ParsedRequest) {
        let isEnvelope = request.form == .envelope
        guard let seconds = HeaderCheck.unsigned(value), let notBefore = UInt32(exactly: seconds) else {
            // The value in an envelope is raw JSON, so a string still has its quotes.
            return isEnvelope
                ? request.fail(.none, "not_before must be a number, 0 to 4294967295 seconds since 1970", value)
                : request.refuse(.notBefore, "push-not-before must be 0 to 4294967295 seconds since 1970", value)
        }
        request.notBefore = notBefore
        if let expiration = request.headers.expiration, expiration > 0, expiration <= notBefore {
            request.fail(
                .badExpirationDate,
                isEnvelope
                    ? "apns-expiration must be 0, or later than not_before"
                    : "apns-expiration must be 0, or later than push-not-before", fields[.expiration] ?? .nothing)
        }
    }
}

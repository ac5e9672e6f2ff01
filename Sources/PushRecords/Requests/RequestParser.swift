import JSON

/// Reads records of request and retry topics: one validating pass over lent bytes, nothing decoded, nothing copied but
/// escaped strings of envelopes, no allocation per record.
///
/// Not thread-safe: one parser belongs to one thread. It never throws: what cannot be read is a dead letter, what is
/// wrong is `isInvalid`. What needs the configuration is left to the caller: the topic's default, whether topic and
/// push type fit the app, whether the expiration has passed.
package struct RequestParser: ~Copyable {
    /// Most tokens in one record.
    package static let tokenLimit = 10_000
    package static let payloadLimit = 4_096
    /// For voip and for broadcasts.
    package static let largePayloadLimit = 5_120

    var fields = FieldTable()
    var copied: CopiedHeaders
    var envelope = EnvelopeTable()
    var scratch = ParserScratch()

    /// - Parameter copyHeaders: names (`results.copy_headers`) to carry on beside `traceparent` and `tracestate`.
    package init(copyHeaders: [String] = []) {
        copied = CopiedHeaders(copyHeaders)
    }

    /// Reads one record.
    ///
    /// - Parameters:
    ///   - key: a `nil` base address when the record has none.
    ///   - value: a `nil` base address is a tombstone; an empty one with a base address is an empty payload.
    package mutating func parse(
        key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        role: RecordRole
    ) -> ParsedRequest {
        let known = read(headers, role)
        var request = ParsedRequest(copiedHeaders: copied.list)
        fill(&request, key, value, known, role)
        return request
    }

    private mutating func fill(
        _ request: inout ParsedRequest, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ known: KnownHeaders, _ role: RecordRole
    ) {
        guard value.baseAddress != nil else { return request.bury(.tombstone, Detail("the value is null")) }
        guard value.count > 0 else { return payloadForm(&request, key, value, .null, known, role) }
        let scan = JSONScanner.scan(value, members: scratch.members)
        if let error = scan.error {
            scratch.removeTexts()
            return request.bury(.notJSON, scratch.foreign(value) ?? scratch.detail(of: error))
        }
        if case .object = scan.kind, role == .request, envelope.read(value, scan, scratch.members) {
            request.form = .envelope
            envelopeForm(&request, key, value, scan, known)
        } else {
            payloadForm(&request, key, value, scan.kind, known, role, half: scan.halfSurrogate)
        }
    }

    /// What is to be known of a record's headers beside their values.
    struct KnownHeaders {
        /// The first name that came twice.
        var duplicate: UnsafeRawBufferPointer = .nothing
        /// The first `apns-` or `push-` header that a producer, not this worker, wrote.
        var own: UnsafeRawBufferPointer = .nothing
        /// The first of those that there is not: misspelt, in another case, or unknown to this version.
        var unknown: UnsafeRawBufferPointer = .nothing
    }

    /// Puts the headers into the field table.
    private mutating func read(_ headers: UnsafeBufferPointer<RecordHeader>, _ role: RecordRole) -> KnownHeaders {
        fields.removeAll()
        copied.removeAll()
        var known = KnownHeaders()
        for header in headers {
            if let name = KnownHeader(header.name) {
                if copied.includesKnown { copied.consider(header) }
                if name.isRetry && role == .request { continue }
                if !fields.add(name, header.value) && known.duplicate.baseAddress == nil {
                    known.duplicate = header.name
                }
                if known.own.baseAddress == nil && header.value.baseAddress != nil { known.own = header.name }
            } else {
                // What the configuration names is somebody's header, whatever it is called.
                if !copied.consider(header) && HeaderName.isOwn(header.name) {
                    if known.own.baseAddress == nil { known.own = header.name }
                    if known.unknown.baseAddress == nil { known.unknown = header.name }
                }
            }
        }
        return known
    }

    // MARK: - Payload form

    private mutating func payloadForm(
        _ request: inout ParsedRequest, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ kind: JSONKind, _ known: KnownHeaders, _ role: RecordRole, half: Int? = nil
    ) {
        scratch.removeTexts()
        request.payload = value
        if let channel = fields[.channelID] {
            request.target = .channel
            request.channelID = channel
            if let token = fields[.deviceToken] {
                request.target = .device
                request.token = token
                request.channelID = .nothing
                request.fail(RequestFault(.none, "both push-device-token and apns-channel-id"))
            }
        } else if let token = fields[.deviceToken] {
            guard token.count > 0 else {
                request.bury(.noDeviceToken, Detail("push-device-token is empty"))
                return
            }
            request.target = .device
            request.token = token
        } else if Self.isTokenKey(key) {
            request.target = .device
            request.token = key
        } else {
            request.bury(.noDeviceToken, scratch.foreign(key: key) ?? withoutToken(kind, role))
            return
        }
        request.tokenCount = 1
        if role == .retry {
            guard let retry = RetryFields(fields) else {
                request.bury(.badRetryHeaders, Detail("the push-retry headers are missing or unreadable"))
                return
            }
            request.retry = retry
            request.key = (fields[.retryKey] ?? .nothing).cutText(RecordLimits.key)
            request.cutToken()
        } else {
            request.keepKey(key)
            // A retry record of a newer version may have more headers than are known here.
            if known.unknown.baseAddress != nil {
                request.fail(unknownHeader("there is no such header", known.unknown))
            }
        }
        if known.duplicate.baseAddress != nil {
            request.fail(RequestFault(.duplicateHeaders, "a header that comes twice", known.duplicate))
        }
        readFields(&request)
        checkPayload(&request, kind, half: half)
    }

    /// Why a record in payload form is for nobody.
    private mutating func withoutToken(_ kind: JSONKind, _ role: RecordRole) -> Detail {
        // The table is of this record only where it may be an envelope.
        if case .object = kind, role == .request, envelope.lacksTarget {
            return Detail(
                "an envelope names its device_token, device_tokens or channel_id", meantMember(envelope.unknown))
        }
        return Detail("no push-device-token, and the key is not a device token of 64 or more hex digits")
    }

    /// The fault of a header that there is not, with the name that is nearest to it.
    mutating func unknownHeader(
        _ complaint: StaticString, _ name: UnsafeRawBufferPointer, inEnvelope: Bool = false
    ) -> RequestFault {
        guard let known = KnownHeader(nearest: name, inEnvelope: inEnvelope) else {
            return RequestFault(.none, complaint, name)
        }
        return RequestFault(.none, complaint, scratch.suggestion(known.text, for: name))
    }

    /// Whether a record's key is taken for its device token when nothing else names one: 64 or more hex digits, an even
    /// number of them.
    static func isTokenKey(_ key: UnsafeRawBufferPointer) -> Bool {
        key.count >= 64 && key.count & 1 == 0 && Hex.isHex(key)
    }

    // MARK: - What both forms share

    /// Checks what is in the field table and puts it into the request.
    mutating func readFields(_ request: inout ParsedRequest) {
        let isBroadcast = request.target == .channel
        if request.token.first == ForeignForm.quote, ForeignForm.isQuotedHex(request.token) {
            request.fail(RequestFault(.badDeviceToken, ForeignForm.quotedToken))
        }
        request.headers.pushType = isBroadcast ? .liveactivity : .alert
        if isBroadcast && !HeaderCheck.isClean(request.channelID, limit: RecordLimits.channelID) {
            request.fail(RequestFault(.badChannelId, "a channel id is printable ASCII of 1 to 200 bytes"))
            request.channelID = request.channelID.cutText(RecordLimits.channelID)
        }
        if let value = fields[.topic] {
            request.headers.topic = value
            if !HeaderCheck.isClean(value, limit: RecordLimits.topic) {
                request.headers.topic = value.cutText(RecordLimits.topic)
                request.fail(RequestFault(.badTopic, "apns-topic must be printable ASCII of 1 to 255 bytes", value))
            } else if isBroadcast && HeaderCheck.isLiveActivityTopic(value) {
                // Whatever the configuration: so that the library can say it, too.
                request.fail(
                    RequestFault(
                        .topicDisallowed, "a broadcast's topic is the bundle id, without a push type's suffix", value)
                )
            }
        }
        if let value = fields[.pushType] {
            if let type = HeaderCheck.pushType(value) {
                request.headers.pushType = type
            } else {
                let meant = PushType(nearest: value).map { scratch.suggestion($0.text, for: value) }
                request.fail(RequestFault(.invalidPushType, "apns-push-type is not one of Apple's", meant ?? value))
            }
            if isBroadcast && request.headers.pushType != .liveactivity {
                request.fail(RequestFault(.invalidPushType, "a broadcast's apns-push-type must be liveactivity", value))
            }
        }
        if let value = fields[.priority] {
            if let priority = HeaderCheck.priority(value) {
                request.headers.priority = priority
                if request.headers.pushType == .background && priority != 5 {
                    request.fail(
                        RequestFault(.badPriority, "apns-priority of a background notification must be 5", value))
                }
            } else {
                request.fail(RequestFault(.badPriority, "apns-priority must be 1, 5 or 10", value))
            }
        } else if request.headers.pushType == .background {
            request.headers.priority = 5
        }
        if let value = fields[.expiration] {
            if let seconds = HeaderCheck.unsigned(value), let expiration = UInt32(exactly: seconds) {
                request.headers.expiration = expiration
            } else {
                request.fail(RequestFault(.badExpirationDate, "apns-expiration must be 0 to 4294967295 seconds", value))
            }
        }
        if let value = fields[.notBefore] { readNotBefore(value, &request) }
        for header in fields.texts {
            let value = fields[header]
            let row = header.row
            request.headers.texts[header] = value
            if !HeaderCheck.isClean(value, limit: row.limit) {
                request.headers.texts[header] = value.cutText(row.limit)
                request.fail(RequestFault(row.reason, row.complaint, value))
            }
        }
        if let value = fields[.apnsID] {
            if let id = NotificationUUID(text: value), id != .none {
                request.headers.apnsID = id
            } else {
                request.fail(RequestFault(.badMessageId, "apns-id must be a UUID that is not nil", value))
            }
        }
        if let value = fields[.app] {
            // One byte more than a name may have, so that no app has the name that is left of a longer one.
            request.app = value.cut(RecordLimits.app + 1)
            if value.count == 0 { request.fail(RequestFault(.none, "the app's name is empty")) }
            if value.count > RecordLimits.app {
                request.fail(RequestFault(.none, "the app's name has more than 100 bytes", value))
            }
        }
        if let value = fields[.environment] {
            if let environment = HeaderCheck.environment(value) {
                request.environment = environment
            } else {
                request.fail(RequestFault(.none, "the environment must be production or development", value))
            }
        }
    }

    /// When the request is to be sent. What expires first never could be.
    private func readNotBefore(_ value: UnsafeRawBufferPointer, _ request: inout ParsedRequest) {
        guard let seconds = HeaderCheck.unsigned(value), let notBefore = UInt32(exactly: seconds) else {
            let complaint: StaticString =
                request.form == .envelope
                ? "not_before must be a number, 0 to 4294967295 seconds since 1970"
                : "push-not-before must be 0 to 4294967295 seconds since 1970"
            return request.fail(RequestFault(.none, complaint, value))
        }
        request.notBefore = notBefore
        if let expiration = request.headers.expiration, expiration > 0, expiration <= notBefore,
            let value = fields[.expiration]
        {
            let complaint: StaticString =
                request.form == .envelope
                ? "apns-expiration must be 0, or later than not_before"
                : "apns-expiration must be 0, or later than push-not-before"
            request.fail(RequestFault(.badExpirationDate, complaint, value))
        }
    }

    /// Checks kind, text and size of the payload.
    ///
    /// - Parameter half: where in the record's value the payload has half a surrogate pair. It is JSON by the grammar,
    ///   but RFC 7493 forbids it, and Swift's Foundation reads no JSON that has it: what APNs accepts, a device may
    ///   lose.
    mutating func checkPayload(_ request: inout ParsedRequest, _ kind: JSONKind, half: Int?) {
        switch kind {
        case .object: break
        case .null: request.fail(RequestFault(.payloadEmpty, "the payload is empty"))
        case .string:
            request.fail(
                RequestFault(.badRequestPayload, "the payload must be a JSON object, not a string (serialized twice?)"))
        case .array, .number, .bool:
            request.fail(RequestFault(.badRequestPayload, "the payload must be a JSON object"))
        }
        if let half {
            request.fail(
                RequestFault(
                    .badRequestPayload, "the payload has half a surrogate pair, as of a text cut inside an emoji",
                    scratch.decimal("at byte ", half)))
        }
        if request.target == .channel || request.headers.pushType == .voip {
            if request.payload.count > Self.largePayloadLimit {
                request.fail(RequestFault(.payloadTooLarge, "the payload has more than 5120 bytes"))
            }
        } else if request.payload.count > Self.payloadLimit {
            request.fail(RequestFault(.payloadTooLarge, "the payload has more than 4096 bytes"))
        }
    }
}

import JSON

/// A notification to request again, identified by the data in its result.
package struct ReplayRequest: Hashable, Sendable {
    package var index: Int32
    /// The device token or channel id in the result, which must match the record. Empty if the result has neither.
    package var target: String
    /// The result's `requested_at_ms`: the record's timestamp, or `RecordTime.unknown`.
    package var requestedAtMs: Int64

    package init(index: Int32, target: String, requestedAtMs: Int64) {
        self.index = index
        self.target = target
        self.requestedAtMs = requestedAtMs
    }

    /// Creates a request from a result. A target that is too long is truncated to one byte more than the limit, so that
    /// it cannot match a valid target.
    package init(_ result: DeliveryResult) {
        self.init(
            index: result.request.index,
            target: (result.deviceToken ?? result.channelID ?? "").cut(utf8: Self.targetLimit),
            requestedAtMs: result.requestedAtMs)
    }

    private static let targetLimit = max(RecordLimits.deviceToken, RecordLimits.channelID) + 1
}

/// The outcome of a replay request.
package enum ReplayVerdict {
    /// The record to produce. It is valid until the closure that received it returns.
    case record(EncodedRecord)
    /// The record at the request's offset is a different one, usually because the topic was recreated. The text names
    /// the difference.
    case another(StaticString)
    /// The request's `apns-expiration` has passed.
    case expired
    /// The notification cannot be requested on its own, for the reason in the detail.
    case refused(Detail)
}

/// A writer of records that request notifications again. Each record has the header `push-replay-of` with the
/// `topic/partition/offset/index` of the original request.
///
/// `push-replay-of` is the first header, so that `RequestParser.CopiedHeaders` always has space for it. The writer
/// reuses its buffers and is not thread-safe.
package struct ReplayWriter: ~Copyable {
    package static let header: StaticString = "push-replay-of"

    private var parser: RequestParser
    /// A second parser, for the payloads of envelopes. The result of `parser` is still in use when a payload is parsed.
    private var payloadParser = RequestParser()
    private var text = HeaderText()
    private var list = RecordHeaderList()
    private let token: UnsafeMutableRawBufferPointer

    /// - Parameter copyHeaders: The worker's `results.copy_headers`.
    package init(copyHeaders: [String] = []) {
        parser = RequestParser(copyHeaders: copyHeaders)
        token = .allocate(byteCount: DeviceToken.textLimit, alignment: 16)
    }

    deinit { token.deallocate() }

    /// The kind of a record whose key and value are copied unchanged.
    package enum Whole {
        case request
        /// A dead letter, whose `push-dlq-…` headers are omitted.
        case letter
        /// A dead letter of a retry record. Its header `push-retry-request` names the original request.
        case retryLetter
        /// A dead letter of a retry record that is copied to another topic, without its `push-retry-…` headers.
        case movedRetryLetter
    }

    /// Writes a copy of the record with the header `push-replay-of`.
    ///
    /// - Parameter place: The record's position, with index 0.
    package mutating func whole(
        key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        place: RequestPlace, as kind: Whole
    ) -> EncodedRecord {
        begin(headers, place, isRetry: kind == .retryLetter || kind == .movedRetryLetter)
        for header in headers where !Self.isHeader(header) {
            if kind != .request, header.name.begins("push-dlq-") { continue }
            if kind == .movedRetryLetter, header.name.begins("push-retry-") { continue }
            list.append(header)
        }
        return EncodedRecord(key: key, value: value, headers: list.list)
    }

    /// Calls `body` with the verdict on each request. A record with one target is copied. A notification of a fan-out
    /// becomes a record in payload form, with the envelope record's headers and its key, or else the token as the key.
    ///
    /// - Parameters:
    ///   - timestampMs: The record's timestamp.
    ///   - place: The record's position. Its index is replaced by the index of each request.
    ///   - requests: The requests in the order of their index. Two requests can have the same index if the topic was
    ///     recreated.
    ///   - expiredToo: Whether to request expired notifications again.
    ///   - body: A closure that receives the position in `requests` and the verdict.
    package mutating func write(
        key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        timestampMs: Int64, place: RequestPlace, requests: some Collection<ReplayRequest>, nowMs: Int64,
        expiredToo: Bool, _ body: (Int, ReplayVerdict) -> Void
    ) {
        let record = parser.parse(key: key, value: value, headers: headers, role: .request)
        let hasExpired = !expiredToo && record.headers.expiration.map { $0 > 0 && nowMs >= Int64($0) * 1_000 } ?? false
        let rejection = record.target == .devices ? self.rejection(of: record) : nil
        var cursor = TokenCursor()
        var last: (index: Int32, target: Target?)?
        for (number, request) in requests.enumerated() {
            var place = place
            place.index = request.index
            if last?.index != request.index { last = (request.index, target(of: request.index, in: record, &cursor)) }
            let found = last?.target
            let verdict: ReplayVerdict =
                if let difference = difference(request, found, timestampMs) {
                    .another(difference)
                } else if hasExpired {
                    .expired
                } else if record.target != .devices {
                    .record(whole(key: key, value: value, headers: headers, place: place, as: .request))
                } else if let rejection {
                    .refused(rejection)
                } else if let found, found.isToken {
                    .record(single(record, found.text, key: key, headers: headers, place: place))
                } else {
                    .refused(Detail("the device token is invalid"))
                }
            body(number, verdict)
        }
    }

    // MARK: Matching the record

    private struct Target {
        /// The device token or channel id, as a result would contain it.
        var text: UnsafeRawBufferPointer
        /// Whether the text is a valid device token or channel id.
        var isToken: Bool
    }

    /// Returns the target with the given index, or `nil` if the record has no such target.
    private func target(of index: Int32, in request: ParsedRequest, _ cursor: inout TokenCursor) -> Target? {
        func read(_ normalized: DeviceToken.Normalized) -> Target {
            Target(
                text: UnsafeRawBufferPointer(rebasing: token[..<normalized.count]), isToken: normalized.failure == .none
            )
        }
        switch request.target {
        case .none: return nil
        case .device: return index == 0 ? read(DeviceToken.normalize(request.token, into: token)) : nil
        case .channel:
            let isToken = HeaderCheck.isClean(request.channelID, limit: RecordLimits.channelID)
            return index == 0 ? Target(text: request.channelID, isToken: isToken) : nil
        case .devices:
            var found: DeviceToken.Normalized?
            while cursor.index <= index {
                guard let next = cursor.next(in: request.tokenList, into: token) else { return nil }
                found = next
            }
            return found.map { read($0) }
        }
    }

    private func difference(_ request: ReplayRequest, _ found: Target?, _ timestampMs: Int64) -> StaticString? {
        let (one, other) = (RecordTime.checked(request.requestedAtMs), RecordTime.checked(timestampMs))
        // If the record has a timestamp, every result of the record contains it.
        if other != RecordTime.unknown, one != other { return "the record has a different timestamp than the result" }
        guard let found else { return "the record has no notification with the result's index" }
        // Do not compare an invalid token, because the result may contain only its beginning.
        guard found.isToken, !request.target.isEmpty, !request.target.utf8.elementsEqual(found.text) else { return nil }
        return "the record is for another device or channel"
    }

    /// Returns the reason why an envelope cannot be split into one record for each token, or `nil` if it can.
    private mutating func rejection(of request: ParsedRequest) -> Detail? {
        if request.isInvalid { return request.detail }
        let none = UnsafeBufferPointer<RecordHeader>(start: nil, count: 0)
        let alone = payloadParser.parse(key: .nothing, value: request.payload, headers: none, role: .request)
        // If this payload were the value of a request record, the worker would parse it as an envelope.
        return alone.form == .envelope ? Detail("the payload has the members of an envelope") : nil
    }

    // MARK: Writing

    /// Clears the list of headers and adds `push-replay-of` with the position of the original request.
    private mutating func begin(
        _ headers: UnsafeBufferPointer<RecordHeader>, _ place: RequestPlace, isRetry: Bool = false
    ) {
        list.removeAll()
        text.removeAll()
        func named(_ name: StaticString) -> UnsafeRawBufferPointer? {
            headers.first { name.spells($0.name) && RequestPlace(text: $0.value) != nil }?.value
        }
        let earlier = named(Self.header) ?? (isRetry ? named("push-retry-request") : nil)
        list.append(Self.header, earlier ?? text.add(place))
    }

    private static func isHeader(_ header: RecordHeader) -> Bool { Self.header.spells(header.name) }

    private mutating func single(
        _ request: ParsedRequest, _ token: UnsafeRawBufferPointer, key: UnsafeRawBufferPointer,
        headers: UnsafeBufferPointer<RecordHeader>, place: RequestPlace
    ) -> EncodedRecord {
        begin(headers, place)
        list.append(request.headers, &text)
        let key = key.baseAddress == nil ? token : key
        if !(RequestParser.isTokenKey(key) && key.isSameToken(token)) { list.append("push-device-token", token) }
        if request.app.count > 0 { list.append("push-app", request.app) }
        if let environment = request.environment { list.append("push-environment", environment.text.lentBytes) }
        if request.notBefore > 0 { list.append("push-not-before", text.add(Int64(request.notBefore))) }
        // A valid envelope's record has no `apns-` or `push-` headers that could conflict with the headers above.
        for header in headers where !Self.isHeader(header) { list.append(header) }
        return EncodedRecord(key: key, value: request.payload, headers: list.list)
    }
}

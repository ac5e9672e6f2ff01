import JSON

/// One notification to request again, as its result describes it.
package struct ReplayRequest: Hashable, Sendable {
    package var index: Int32
    /// The device token or channel id in its result, which must match the record's. Empty if the result has none.
    package var target: String
    /// The `requested_at_ms` of its result: the record's timestamp, or `RecordTime.unknown`.
    package var requestedAtMs: Int64

    package init(index: Int32, target: String, requestedAtMs: Int64) {
        self.index = index
        self.target = target
        self.requestedAtMs = requestedAtMs
    }

    /// A target longer than any token or channel is cut so that it still matches none.
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
    /// The record to produce; lent for the call.
    case record(EncodedRecord)
    /// The record there is not the one that the result is about: its topic was recreated. Says how they differ.
    case another(StaticString)
    /// Its `apns-expiration` has passed.
    case expired
    /// It cannot be requested by itself. Says why.
    case refused(Detail)
}

/// Writes the records that request notifications again, each with the header `push-replay-of`: the
/// `topic/partition/offset/index` of the first request.
///
/// That header comes first, so that `CopiedHeaders` always has room for it. Reuses its buffers; not thread-safe.
package struct ReplayWriter: ~Copyable {
    package static let header: StaticString = "push-replay-of"

    private var parser: RequestParser
    /// Parses payloads while the result of `parser` is in use.
    private var payloadParser = RequestParser()
    private var text = HeaderText()
    private var list = RecordHeaderList()
    private let token: UnsafeMutableRawBufferPointer

    /// - Parameter copyHeaders: `results.copy_headers` of the workers' configuration.
    package init(copyHeaders: [String] = []) {
        parser = RequestParser(copyHeaders: copyHeaders)
        token = .allocate(byteCount: DeviceToken.textLimit, alignment: 16)
    }

    deinit { token.deallocate() }

    /// The kind of a record that is copied whole.
    package enum Whole {
        case request
        /// A dead letter. Its `push-dlq-…` headers are left out.
        case letter
        /// A dead letter of a retry record, whose first request is in `push-retry-request`.
        case retryLetter
        /// The same, for another topic than its own. Its `push-retry-…` headers are left out.
        case movedRetryLetter
    }

    /// Writes a copy of the record.
    ///
    /// - Parameter place: the record's; its index is 0.
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

    /// Passes the verdict on each request to `body`: a copy of a record with one notification; for an envelope with
    /// several a record in payload form with the notification of that index, the record's key and its other headers.
    ///
    /// - Parameters:
    ///   - timestampMs: the record's.
    ///   - place: the record's; the index is each request's.
    ///   - requests: in the order of their indexes. Two may have the same index if the topic was recreated.
    ///   - expiredToo: whether to request expired notifications again.
    ///   - body: gets the position among the requests.
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
                    .refused(Detail("what stands for its device is no device token"))
                }
            body(number, verdict)
        }
    }

    // MARK: Matching the record

    private struct Target {
        /// As in a result.
        var text: UnsafeRawBufferPointer
        /// Whether it is a valid device token or channel.
        var isToken: Bool
    }

    /// The target with that index, or `nil` if the record has none.
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
        // The result of a record with a timestamp always has it.
        if other != RecordTime.unknown, one != other { return "the record there has another time than the result says" }
        guard let found else { return "the record there has no such notification" }
        // A result has only part of what is no token.
        guard found.isToken, !request.target.isEmpty, !request.target.utf8.elementsEqual(found.text) else { return nil }
        return "the record there is for another device"
    }

    /// Why an envelope cannot be split.
    private mutating func rejection(of request: ParsedRequest) -> Detail? {
        if request.isInvalid { return request.detail }
        let none = UnsafeBufferPointer<RecordHeader>(start: nil, count: 0)
        let alone = payloadParser.parse(key: .nothing, value: request.payload, headers: none, role: .request)
        // By itself on a request topic it would be parsed as an envelope.
        return alone.form == .envelope ? Detail("its payload has the members of an envelope") : nil
    }

    // MARK: Writing

    /// Begins the headers with the place of the first request.
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
        // A valid envelope's record has no headers of Apple's or the worker's.
        for header in headers where !Self.isHeader(header) { list.append(header) }
        return EncodedRecord(key: key, value: request.payload, headers: list.list)
    }
}

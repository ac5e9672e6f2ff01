import JSON

/// One notification of a request record that is to be asked for again, and what its result says of it.
package struct ReplayWish: Hashable, Sendable {
    package var index: Int32
    /// The device token or channel id of its result, to know the record by; empty: the result names none.
    package var target: String
    /// The `requested_at_ms` of its result: the record's timestamp; `RecordTime.unknown`: it had none.
    package var requestedAtMs: Int64

    package init(index: Int32, target: String, requestedAtMs: Int64) {
        self.index = index
        self.target = target
        self.requestedAtMs = requestedAtMs
    }

    /// A device token or channel that is longer than any is cut, so that it still is none.
    package init(_ result: DeliveryResult) {
        self.init(
            index: result.request.index,
            target: (result.deviceToken ?? result.channelID ?? "").cut(utf8: Self.targetLimit),
            requestedAtMs: result.requestedAtMs)
    }

    private static let targetLimit = max(RecordLimits.deviceToken, RecordLimits.channelID) + 1
}

/// What becomes of a wish.
package enum ReplayVerdict {
    /// The record to produce; lent for the call.
    case record(EncodedRecord)
    /// The record at that place is another one than the result is about: its topic was made anew. In words.
    case another(StaticString)
    /// Its `apns-expiration` has passed: the worker would not send it.
    case expired
    /// It cannot be asked for by itself. In words.
    case refused(Detail)
}

/// Makes of a request record the records that ask for its notifications again, each with the header `push-replay-of`:
/// `topic/partition/offset/index` of where it was asked for first.
///
/// That header stands before all others, so that there is always room for it among those that are carried on
/// (`CopiedHeaders`). Reuses its buffers; not thread-safe.
package struct ReplayWriter: ~Copyable {
    package static let header: StaticString = "push-replay-of"

    private var parser: RequestParser
    /// Looks at payloads, while what the other found is used.
    private var payloadParser = RequestParser()
    private var text = HeaderText()
    private var list = RecordHeaderList()
    private let token: UnsafeMutableRawBufferPointer

    /// - Parameter copyHeaders: names that the workers' configuration has in `results.copy_headers`, which may begin
    ///   like the worker's own.
    package init(copyHeaders: [String] = []) {
        parser = RequestParser(copyHeaders: copyHeaders)
        token = .allocate(byteCount: DeviceToken.textLimit, alignment: 16)
    }

    deinit { token.deallocate() }

    /// What kind of record is written as it was.
    package enum Whole {
        case request
        /// Of a dead letter, whose headers (`push-dlq-…`) are left out.
        case letter
        /// The same of a retry record, which goes on with a notification that was asked for elsewhere
        /// (`push-retry-request`).
        case retryLetter
    }

    /// The record as it was.
    ///
    /// - Parameter place: of the record; an index of 0 stands for all of it.
    package mutating func whole(
        key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        place: RequestPlace, as kind: Whole
    ) -> EncodedRecord {
        begin(headers, place, isRetry: kind == .retryLetter)
        let isLetter = kind != .request
        for header in headers where !Self.isHeader(header) && !(isLetter && header.name.begins("push-dlq-")) {
            list.append(header)
        }
        return EncodedRecord(key: key, value: value, headers: list.list)
    }

    /// Says for each wish what becomes of it: a record with one notification as it was; of an envelope with several, a
    /// record in payload form with the notification of that index, with the record's key and its other headers.
    ///
    /// - Parameters:
    ///   - timestampMs: the record's.
    ///   - place: the record's; the index is the wishes'.
    ///   - wishes: in the order of their indexes. Two may have the same index, if the topic was recreated.
    ///   - expiredToo: whether to ask again for what has expired.
    ///   - body: gets the place of the wish among the wishes.
    package mutating func write(
        key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        timestampMs: Int64, place: RequestPlace, wishes: some Collection<ReplayWish>, nowMs: Int64, expiredToo: Bool,
        _ body: (Int, ReplayVerdict) -> Void
    ) {
        let request = parser.parse(key: key, value: value, headers: headers, role: .request)
        let hasExpired =
            !expiredToo && request.headers.expiration.map { $0 > 0 && nowMs >= Int64($0) * 1_000 } ?? false
        let obstacle = request.target == .devices ? self.obstacle(of: request) : nil
        var cursor = TokenCursor()
        var last: (index: Int32, target: Target?)?
        for (number, wish) in wishes.enumerated() {
            var place = place
            place.index = wish.index
            if last?.index != wish.index { last = (wish.index, target(of: wish.index, in: request, &cursor)) }
            let found = last?.target
            if let difference = difference(wish, found, timestampMs) {
                body(number, .another(difference))
                continue
            }
            if hasExpired {
                body(number, .expired)
            } else if request.target != .devices {
                body(
                    number,
                    .record(whole(key: key, value: value, headers: headers, place: place, as: .request)))
            } else if let obstacle {
                body(number, .refused(obstacle))
            } else if found?.isToken != true {
                body(number, .refused(Detail("what stands for its device is no device token")))
            } else {
                body(
                    number, .record(single(request, found?.text ?? .nothing, key: key, headers: headers, place: place)))
            }
        }
    }

    // MARK: Knowing the record

    private struct Target {
        /// As a result has it.
        var text: UnsafeRawBufferPointer
        /// A device token, or a channel.
        var isToken: Bool
    }

    /// `nil`: the record has no such notification.
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

    private func difference(_ wish: ReplayWish, _ found: Target?, _ timestampMs: Int64) -> StaticString? {
        let (one, other) = (RecordTime.checked(wish.requestedAtMs), RecordTime.checked(timestampMs))
        // Of a record that has a time no result is without.
        if other != RecordTime.unknown, one != other { return "the record there has another time than the result says" }
        guard let found else { return "the record there has no such notification" }
        // What is no token stands in a result as far as it could be written.
        guard found.isToken, !wish.target.isEmpty, !wish.target.utf8.elementsEqual(found.text) else { return nil }
        return "the record there is for another device"
    }

    /// Why an envelope cannot be taken apart.
    private mutating func obstacle(of request: ParsedRequest) -> Detail? {
        if request.isInvalid { return request.detail }
        let none = UnsafeBufferPointer<RecordHeader>(start: nil, count: 0)
        let alone = payloadParser.parse(key: .nothing, value: request.payload, headers: none, role: .request)
        // By itself on a request topic it would be read as what it looks like.
        return alone.form == .envelope ? Detail("its payload has the members of an envelope") : nil
    }

    // MARK: Writing

    /// The headers begin with where the record was asked for first.
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
        if request.headers.topic.count > 0 { list.append("apns-topic", request.headers.topic) }
        list.append("apns-push-type", request.headers.pushType.text.lentBytes)
        if request.headers.priority > 0 { list.append("apns-priority", text.add(Int64(request.headers.priority))) }
        if let expiration = request.headers.expiration { list.append("apns-expiration", text.add(Int64(expiration))) }
        for header in request.headers.texts.present {
            list.append(header.row.name, request.headers.texts[header])
        }
        if request.headers.apnsID != .none { list.append("apns-id", text.add(request.headers.apnsID)) }
        let key = key.baseAddress == nil ? token : key
        if !(RequestParser.isTokenKey(key) && key.isSameToken(token)) { list.append("push-device-token", token) }
        if request.app.count > 0 { list.append("push-app", request.app) }
        if let environment = request.environment { list.append("push-environment", environment.text.lentBytes) }
        if request.notBefore > 0 { list.append("push-not-before", text.add(Int64(request.notBefore))) }
        // Of an envelope that is valid none of them is one of Apple's or the worker's.
        for header in headers where !Self.isHeader(header) { list.append(header) }
        return EncodedRecord(key: key, value: request.payload, headers: list.list)
    }
}

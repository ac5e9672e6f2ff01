import JSON

/// Reduced forms, of at most `RecordLimits.reduced` bytes, of records that a broker rejects. They are created from the
/// rejected record alone, because the worker may no longer have the record's notification in memory.
package enum ReducedRecord {
    /// The reason why a broker rejects a record.
    package enum Refusal: Hashable {
        case tooLarge
        /// Another error, identified by its name in Kafka, such as `INVALID_RECORD`.
        case named(String)
    }

    /// Returns the reduced form of a result, or `nil` if `refused` is not a result.
    ///
    /// The reduced form omits copied headers, the request's key and `apns_unique_id`. If it is still too large, it also
    /// omits, in this order: topic, app and environment; the target, which the record's key still contains; the detail;
    /// the id.
    package static func result(_ refused: OwnedRecord) -> OwnedRecord? {
        guard let value = refused.value, (try? DeliveryResult(json: value)) != nil else { return nil }
        return reduced(refused, detail: "the broker rejected the whole result as too large")
    }

    /// Returns the `abandoned` result for a retry record that the broker rejects, or `nil` for any other record.
    package static func abandonedResult(
        ofRetry refused: OwnedRecord, because refusal: Refusal, settledAtMs: Int64
    ) -> OwnedRecord? {
        let (text, subject): (StaticString, String) =
            switch refusal {
            case .tooLarge: ("the broker rejected the retry record as too large", "\(refused.byteCount) bytes")
            case .named(let code): ("the broker rejected the retry record", code)
            }
        return refused.withLent { key, value, headers in
            var parser = RequestParser()
            let request = parser.parse(key: key, value: value, headers: headers, role: .retry)
            guard let retry = request.retry else { return nil }
            let isUnsent = RetryOrder.held.spells(retry.reason) || RetryOrder.scheduled.spells(retry.reason)
            let app = RecordApp(
                name: String(decoding: request.app, as: UTF8.self), environment: request.environment ?? .production)
            let content = NotificationContent(
                token: request.target == .channel ? request.channelID : request.token,
                isBroadcast: request.target == .channel, headers: request.headers,
                app: app.name.isEmpty || request.environment == nil ? -1 : 0, payload: .nothing,
                request: retry.request, requestKey: .nothing, requestedAtMs: retry.firstMs,
                copiedHeaders: UnsafeBufferPointer(start: nil, count: 0))
            var writer = ResultWriter(apps: [app])
            return Array(subject.utf8).withUnsafeBytes { subject in
                let result = writer.write(
                    content,
                    Ending(
                        outcome: .abandoned, reason: .other, reasonText: isUnsent ? .nothing : retry.reason,
                        detail: Detail(text, subject), attempts: retry.sends, inDoubt: retry.inDoubt, sentAtMs: 0,
                        settledAtMs: settledAtMs))
                return reduced(OwnedRecord(copying: result.key, result.value, headers: result.headers))
            }
        }
    }

    /// The members to omit from a result, step by step, until the result fits into `RecordLimits.reduced` bytes. It
    /// always fits after the last step.
    private static let omissions: [[String]] = [
        ["apns_unique_id", "key"], ["apns_topic", "app", "environment"], ["device_token", "channel_id"], ["detail"],
        ["apns_id"],
    ]

    private static func reduced(_ result: OwnedRecord, detail: String? = nil) -> OwnedRecord {
        var reduced = result
        let kept = ["outcome", "reason"].map { Array($0.utf8) }
        reduced.headers = result.headers.prefix(2).filter { kept.contains($0.name) }
        var omitted: Set<String> = []
        for names in omissions {
            omitted.formUnion(names)
            reduced.value = result.value?.withUnsafeBytes { value in
                var reader = JSONReader(checked: value)
                var json = JSONWriter(capacity: RecordLimits.result)
                copyObject(&reader, to: &json, omitting: omitted, detail: omitted.contains("detail") ? nil : detail)
                return Array(json.bytes)
            }
            if reduced.byteCount <= RecordLimits.reduced { break }
        }
        return reduced
    }

    /// Copies a validated JSON object without the members in `omitted`. The function also omits these members from the
    /// object's member `request`.
    ///
    /// - Parameter detail: The replacement for the member `detail`.
    private static func copyObject(
        _ reader: inout JSONReader, to json: inout JSONWriter, omitting omitted: Set<String>, detail: String? = nil
    ) {
        guard (try? reader.enterObject()) != nil else { return }
        json.beginObject()
        while let name = reader.nextMember()?.string {
            if name == "request" {
                json.name(name)
                copyObject(&reader, to: &json, omitting: omitted)
                continue
            }
            let value = reader.skip()
            if omitted.contains(name) || name == "detail" && detail != nil { continue }
            json.name(name)
            json.value(json: value)
        }
        if let detail { json.member("detail", detail) }
        json.endObject()
    }

    // MARK: Dead letters

    /// The values of `push-dlq-reason` in dead letters of output records. The values for request and retry records are
    /// in `DeadLetterReason`.
    package static let outputReasons = ["output-too-large", "output-refused"]

    /// Returns the dead letter of an output record that the broker rejects: as too large in every form
    /// (`output-too-large`), or for another reason (`output-refused`).
    ///
    /// The dead letter contains the output record's key and value, and the position of the request. If the record names
    /// no request, as for an unregistered token, the position is the output record's topic, with -1 for partition and
    /// offset.
    package static func deadLetter(
        ofOutput refused: OwnedRecord, of topic: String, because refusal: Refusal, atMs: Int64
    ) -> OwnedRecord {
        let request = refused.value.flatMap { try? DeliveryResult(json: $0) }?.request
        let (reason, detail) =
            switch refusal {
            case .tooLarge: ("output-too-large", "the broker rejected the record as too large for topic \(topic)")
            case .named(let code): ("output-refused", "the broker rejected the record for topic \(topic): \(code)")
            }
        return OwnedRecord(
            key: refused.key, value: refused.value,
            headers: [
                OwnedRecord.Header("push-dlq-reason", reason),
                OwnedRecord.Header("push-dlq-detail", String(detail.prefix(RecordLimits.detail))),
                OwnedRecord.Header("push-dlq-topic", request?.topic ?? topic),
                OwnedRecord.Header("push-dlq-partition", "\(request?.partition ?? -1)"),
                OwnedRecord.Header("push-dlq-offset", "\(request?.offset ?? -1)"),
                OwnedRecord.Header("push-dlq-timestamp", "\(atMs)"),
            ])
    }

    /// The headers that a reduced dead letter keeps, with the maximum sizes of their values.
    private static let deadLetterHeaders = [
        "push-dlq-reason": RecordLimits.reason, "push-dlq-detail": RecordLimits.reducedBytes,
        "push-dlq-topic": RecordLimits.kafkaTopic, "push-dlq-partition": 20, "push-dlq-offset": 20,
        "push-dlq-timestamp": 20,
    ]

    /// Returns the reduced form of a dead letter: the position, the reason, the first bytes of key and value, and the
    /// original sizes.
    ///
    /// The reduced form omits the original record's headers. If the key is missing, the position becomes the key,
    /// because a compacted topic requires one.
    package static func deadLetter(_ refused: OwnedRecord) -> OwnedRecord {
        let isReason = { (header: OwnedRecord.Header) in header.name.elementsEqual("push-dlq-reason".utf8) }
        let added = refused.headers[(refused.headers.lastIndex(where: isReason) ?? refused.headers.endIndex)...]
        var headers: [OwnedRecord.Header] = []
        var place: [[UInt8]] = []
        var valueSize = refused.value?.count ?? 0
        var keySize = refused.key?.count ?? 0
        for header in added {
            let name = String(decoding: header.name, as: UTF8.self)
            let number = header.value.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
            // In a dead letter that was already reduced, the sizes are those of the original record.
            if name == "push-dlq-truncated" { valueSize = max(valueSize, number) }
            if name == "push-dlq-key-truncated" { keySize = max(keySize, number) }
            guard let limit = deadLetterHeaders[name] else { continue }
            let value = header.value.map { $0.withUnsafeBytes { Array($0.cutText(limit)) } }
            headers.append(OwnedRecord.Header(header.name, value))
            if ["push-dlq-topic", "push-dlq-partition", "push-dlq-offset"].contains(name) { place.append(value ?? []) }
        }
        headers.append(OwnedRecord.Header("push-dlq-truncated", "\(valueSize)"))
        if keySize > RecordLimits.reducedBytes {
            headers.append(OwnedRecord.Header("push-dlq-key-truncated", "\(keySize)"))
        }
        let key = refused.key ?? Array(place.joined(separator: Array("/".utf8)))
        return OwnedRecord(
            key: Array(key.prefix(RecordLimits.reducedBytes)),
            value: refused.value.map { Array($0.prefix(RecordLimits.reducedBytes)) }, headers: headers)
    }
}

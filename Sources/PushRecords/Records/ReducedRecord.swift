import JSON

/// The small forms, of at most `RecordLimits.reduced` bytes each, of records that a broker refuses as too large even
/// when they come alone. Each is made from the refused record's own bytes: the notification may be long forgotten.
///
/// They say what became of the notification, and where it was asked for; what else there is room for.
package enum ReducedRecord {
    /// Why a topic refuses a record.
    package enum Refusal: Hashable {
        case tooLarge
        /// With Kafka's name of the error.
        case named(String)
    }

    /// The small form of a result; `nil` when `refused` is none.
    ///
    /// Copied headers, the request's key and Apple's unique id are left out; then, until it fits, topic and app, the
    /// token (the record's key still has it), the detail, the id.
    package static func result(_ refused: OwnedRecord) -> OwnedRecord? {
        guard let value = refused.value, var result = try? DeliveryResult(json: value) else { return nil }
        result.detail = "the broker refused the whole result as too large"
        return reduced(result, key: refused.key)
    }

    /// The result of a notification that cannot be retried, since the retry topic refuses its record: `abandoned`.
    /// `nil` when `refused` is no retry record.
    package static func abandonedResult(
        ofRetry refused: OwnedRecord, because refusal: Refusal, settledAtMs: Int64
    ) -> OwnedRecord? {
        let detail =
            switch refusal {
            case .tooLarge: "the retry topic refuses a record of \(refused.byteCount) bytes as too large"
            case .named(let code): "the retry topic refuses the record: \(code)"
            }
        return abandonedResult(ofRetry: refused, detail, settledAtMs: settledAtMs)
    }

    private static func abandonedResult(
        ofRetry refused: OwnedRecord, _ detail: String, settledAtMs: Int64
    ) -> OwnedRecord? {
        refused.withLent { key, value, headers in
            var parser = RequestParser()
            let request = parser.parse(key: key, value: value, headers: headers, role: .retry)
            guard let retry = request.retry else { return nil }
            func text(_ bytes: UnsafeRawBufferPointer) -> String? {
                bytes.count == 0 ? nil : String(decoding: bytes, as: UTF8.self)
            }
            let isUnsent = RetryOrder.held.spells(retry.reason) || RetryOrder.scheduled.spells(retry.reason)
            let place = retry.request
            let result = DeliveryResult(
                apnsID: request.headers.apnsID == .none ? nil : request.headers.apnsID, apnsUniqueID: nil,
                deviceToken: text(request.token), channelID: text(request.channelID),
                apnsTopic: text(request.headers.topic), app: text(request.app), environment: request.environment,
                outcome: .abandoned, status: nil,
                reason: isUnsent ? nil : text(retry.reason).map { Reason(rawValue: $0) },
                detail: detail,
                unregisteredAtMs: nil, attempts: Int(retry.sends), inDoubt: Int(retry.inDoubt),
                requestedAtMs: retry.firstMs, sentAtMs: nil, settledAtMs: settledAtMs,
                request: DeliveryResult.Request(
                    topic: String(decoding: place.topic, as: UTF8.self), partition: place.partition,
                    offset: place.offset, index: place.index))
            return reduced(result, key: refused.key)
        }
    }

    /// Of dead letters of records of the worker's own, beside those of `DeadLetterReason`.
    package static let outputReasons = ["output-too-large", "output-refused"]

    /// The dead letter of a record of the worker's own which its topic refuses, as too large in every form it has
    /// (`output-too-large`) or for another reason (`output-refused`): its key and value as they are, and the place of
    /// the request that it is about. A record that does not say where that was has the topic which refused it, and -1
    /// for partition and offset.
    package static func deadLetter(
        ofOutput refused: OwnedRecord, of topic: String, because refusal: Refusal, atMs: Int64
    ) -> OwnedRecord {
        let request = refused.value.flatMap { try? DeliveryResult(json: $0) }?.request
        let (reason, detail) =
            switch refusal {
            case .tooLarge: ("output-too-large", "topic \(topic) refuses the record as too large")
            case .named(let code): ("output-refused", "topic \(topic) refuses the record: \(code)")
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

    /// The small form of a dead letter: its coordinates and reason, and the first bytes of key and value with the sizes
    /// that they had. The record's own headers are left out. Without a key it has its coordinates as one, since a
    /// compacted topic takes no record without a key.
    package static func deadLetter(_ refused: OwnedRecord) -> OwnedRecord {
        let isReason = { (header: OwnedRecord.Header) in header.name.elementsEqual("push-dlq-reason".utf8) }
        let said = refused.headers[(refused.headers.lastIndex(where: isReason) ?? refused.headers.endIndex)...]
        var headers: [OwnedRecord.Header] = []
        var valueSize = refused.value?.count ?? 0
        var keySize = refused.key?.count ?? 0
        for header in said {
            let limit: Int
            switch String(decoding: header.name, as: UTF8.self) {
            case "push-dlq-reason": limit = RecordLimits.reason
            case "push-dlq-detail": limit = RecordLimits.reducedBytes
            case "push-dlq-topic": limit = RecordLimits.kafkaTopic
            case "push-dlq-partition", "push-dlq-offset", "push-dlq-timestamp": limit = 20
            case "push-dlq-truncated":
                // Cut before: it had more bytes than there are.
                valueSize = max(valueSize, Int(String(decoding: header.value ?? [], as: UTF8.self)) ?? 0)
                continue
            case "push-dlq-key-truncated":
                keySize = max(keySize, Int(String(decoding: header.value ?? [], as: UTF8.self)) ?? 0)
                continue
            default: continue
            }
            headers.append(OwnedRecord.Header(header.name, header.value.map { cut($0, limit) }))
        }
        headers.append(OwnedRecord.Header("push-dlq-truncated", "\(valueSize)"))
        if keySize > RecordLimits.reducedBytes {
            headers.append(OwnedRecord.Header("push-dlq-key-truncated", "\(keySize)"))
        }
        let place = ["push-dlq-topic", "push-dlq-partition", "push-dlq-offset"].compactMap { name in
            headers.first { $0.name.elementsEqual(name.utf8) }?.value
        }
        return OwnedRecord(
            key: Array(
                (refused.key ?? Array(place.joined(separator: Array("/".utf8)))).prefix(RecordLimits.reducedBytes)),
            value: refused.value.map { Array($0.prefix(RecordLimits.reducedBytes)) }, headers: headers)
    }

    private static func cut(_ bytes: [UInt8], _ limit: Int) -> [UInt8] {
        bytes.withUnsafeBytes { Array($0.cutText(limit)) }
    }
}

// MARK: - Results

extension ReducedRecord {
    /// What is left out, one after the other, until the record fits. The last one always does.
    private enum Omission: CaseIterable {
        case unneeded, topicAndApp, token, detail, id
    }

    private static func reduced(_ result: DeliveryResult, key: [UInt8]?) -> OwnedRecord {
        var result = result
        var record = OwnedRecord(
            key: key.map { cut($0, RecordLimits.deviceToken) }, value: nil,
            headers: [OwnedRecord.Header("outcome", result.outcome.rawValue)])
        if let reason = result.reason?.rawValue, !reason.isEmpty {
            record.headers.append(
                OwnedRecord.Header(Array("reason".utf8), cut(Array(reason.utf8), RecordLimits.reason)))
        }
        for omission in Omission.allCases {
            switch omission {
            case .unneeded:
                result.apnsUniqueID = nil
                result.request.key = nil
            case .topicAndApp:
                result.apnsTopic = nil
                result.app = nil
                result.environment = nil
            case .token:
                result.deviceToken = nil
                if result.channelID != nil { result.channelID = "" }
            case .detail: result.detail = nil
            case .id: result.apnsID = nil
            }
            record.value = json(result)
            if record.byteCount <= RecordLimits.reduced { return record }
        }
        return record
    }

    private static func json(_ result: DeliveryResult) -> [UInt8] {
        var json = JSONWriter()
        func member(_ name: StaticString, _ text: String?, limit: Int) {
            guard var text else { return }
            json.name(name)
            json.out.append("\"")
            text.withUTF8 { json.text(UnsafeRawBufferPointer($0), limit: limit) }
            json.out.append("\",")
            json.removeStructure()
        }
        func member(_ name: StaticString, _ number: Int64?) {
            guard let number else { return }
            json.name(name)
            json.value(number)
        }
        json.beginObject()
        json.member("outcome", result.outcome.rawValue)
        member("status", result.status.map { Int64($0) })
        member("reason", result.reason?.rawValue, limit: RecordLimits.reason)
        member("detail", result.detail, limit: RecordLimits.detail)
        member("unregistered_at_ms", result.unregisteredAtMs)
        member("apns_id", result.apnsID?.description, limit: NotificationUUID.textCount)
        member("device_token", result.deviceToken, limit: RecordLimits.deviceToken)
        member("channel_id", result.channelID, limit: RecordLimits.channelID)
        member("apns_topic", result.apnsTopic, limit: RecordLimits.topicText)
        member("app", result.app, limit: RecordLimits.app)
        if let environment = result.environment { json.member("environment", environment.text) }
        json.member("attempts", result.attempts)
        json.member("in_doubt", result.inDoubt)
        json.member("requested_at_ms", result.requestedAtMs)
        member("sent_at_ms", result.sentAtMs)
        json.member("settled_at_ms", result.settledAtMs)
        json.name("request")
        json.beginObject()
        member("topic", result.request.topic, limit: RecordLimits.kafkaTopic)
        json.member("partition", Int64(result.request.partition))
        json.member("offset", result.request.offset)
        json.member("index", Int64(result.request.index))
        json.endObject()
        json.endObject()
        return Array(json.bytes)
    }
}

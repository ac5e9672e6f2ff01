internal import Kafka
internal import PushRecords

/// What is written in the place of a record that its topic refuses for the record's own sake: mostly it is too large
/// even by itself.
struct SmallerForms {
    enum Next {
        /// For the same topic.
        case same(UndeliveredRecord, TargetTopic.Form)
        /// For the topic that it names, under the same tag.
        case other(UndeliveredRecord)
    }

    let results: ProducerTopic
    let deadLetters: ProducerTopic
    let tiers: [ProducerTopic]
    /// By the topics' indices.
    let names: [String]

    /// The form after `form`; `nil`: nothing smaller says what it must.
    ///
    /// - A dead letter: without its value; then its place, its reason and the first bytes; then without these.
    /// - A result: if it is too large, what became of which notification; then a dead letter.
    /// - A retry record: its notification is abandoned, since there is no place where it could wait.
    /// - A dead token: a dead letter.
    ///
    /// - Parameter code: why it was refused.
    func form(
        after form: TargetTopic.Form, of record: UndeliveredRecord, because code: KafkaCode, nowMs: Int64
    ) -> Next? {
        let refusal: ReducedRecord.Refusal = code == .messageTooLarge ? .tooLarge : .named(code.name)
        let owned = record.withParts { key, value, headers in
            OwnedRecord(copying: key, value, headers: headers.asRecordHeaders)
        }
        func made(_ smaller: OwnedRecord, for topic: ProducerTopic) -> UndeliveredRecord {
            smaller.withLent { key, value, headers in
                UndeliveredRecord(
                    copying: key, value, headers: headers.asMessageHeaders, to: topic, tag: record.tag,
                    code: record.code)
            }
        }
        if record.topic == deadLetters {
            switch form {
            case .together, .single:
                guard let value = owned.value else { break }
                var bare = owned
                bare.value = nil
                bare.headers.append(
                    OwnedRecord.Header(Array("push-dlq-truncated".utf8), Array("\(value.count)".utf8)))
                return .same(made(bare, for: deadLetters), .reduced)
            case .reduced: break
            case .least: return .same(made(ReducedRecord.bareDeadLetter(owned), for: deadLetters), .bare)
            case .bare: return nil
            }
            return .same(made(ReducedRecord.deadLetter(owned), for: deadLetters), .least)
        }
        if record.topic == results, refusal == .tooLarge, form < .least, let reduced = ReducedRecord.result(owned) {
            return .same(made(reduced, for: results), .least)
        }
        if tiers.contains(record.topic),
            let result = ReducedRecord.abandonedResult(ofRetry: owned, because: refusal, settledAtMs: nowMs)
        {
            return .other(made(result, for: results))
        }
        let letter = ReducedRecord.deadLetter(
            ofOutput: owned, of: names[record.topic.index], because: refusal, atMs: nowMs)
        return .other(made(letter, for: deadLetters))
    }

    /// Where the request of a record was, as a result's value has it, and another record's headers; `nil`: they do not
    /// say.
    func request(of record: UndeliveredRecord) -> String? {
        record.withParts { _, value, headers in
            if record.topic == results { return (try? DeliveryResult(json: value))?.request.description }
            var place: [String] = []
            for header in headers.asRecordHeaders {
                switch String(decoding: header.name, as: UTF8.self) {
                case "push-retry-request", "push-dlq-topic", "push-dlq-partition", "push-dlq-offset":
                    place.append(String(decoding: header.value, as: UTF8.self))
                default: break
                }
            }
            return place.isEmpty ? nil : place.joined(separator: "/")
        }
    }
}

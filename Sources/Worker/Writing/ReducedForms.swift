internal import Kafka
internal import PushRecords

/// What is written in the place of a record that its topic refuses for the record's own sake: mostly it is too large
/// even alone.
struct ReducedForms {
    enum Next {
        /// The reduced form, for the same topic.
        case same(UndeliveredRecord)
        /// For the topic that it names, under the same tag.
        case other(UndeliveredRecord)
    }

    let results: ProducerTopic
    let deadLetters: ProducerTopic
    let tiers: [ProducerTopic]
    /// By the topics' indices.
    let names: [String]

    /// What follows on `form`; `nil` when nothing can be written in its place.
    ///
    /// - A dead letter has a reduced form.
    /// - A result that is too large has a reduced form; then, and otherwise, a dead letter.
    /// - The notification of a retry record is abandoned, since there is no place where it could wait.
    /// - A dead token becomes a dead letter.
    ///
    /// - Parameter code: why it was refused.
    func next(
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
            return form < .reduced ? .same(made(ReducedRecord.deadLetter(owned), for: deadLetters)) : nil
        }
        if record.topic == results, refusal == .tooLarge, form < .reduced, let reduced = ReducedRecord.result(owned) {
            return .same(made(reduced, for: results))
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

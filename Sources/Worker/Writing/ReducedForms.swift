internal import Kafka
internal import PushRecords

/// Makes the record that is written in the place of one that its topic refuses alone, mostly because it is too large.
///
/// - A dead letter has a reduced form, which nothing replaces.
/// - A result that is too large has a reduced form; then, and otherwise, a dead letter.
/// - The notification of a retry record is abandoned, since there is no place where it could wait.
/// - A dead token becomes a dead letter.
struct ReducedForms {
    let results: ProducerTopic
    let deadLetters: ProducerTopic
    let tiers: [ProducerTopic]
    /// By the topics' indices.
    let names: [String]

    func canReplace(_ form: TargetTopic.Form, _ record: UndeliveredRecord) -> Bool {
        record.topic != deadLetters || form < .reduced
    }

    /// Returns the record in the place of one that `canReplace`, for the topic that it names, under the same tag.
    ///
    /// - Parameter code: why it was refused.
    func replacement(
        of record: UndeliveredRecord, _ form: TargetTopic.Form, because code: KafkaCode, nowMs: Int64
    ) -> UndeliveredRecord {
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
        if record.topic == deadLetters { return made(ReducedRecord.deadLetter(owned), for: deadLetters) }
        if record.topic == results, refusal == .tooLarge, form < .reduced, let reduced = ReducedRecord.result(owned) {
            return made(reduced, for: results)
        }
        if tiers.contains(record.topic),
            let result = ReducedRecord.abandonedResult(ofRetry: owned, because: refusal, settledAtMs: nowMs)
        {
            return made(result, for: results)
        }
        let letter = ReducedRecord.deadLetter(
            ofOutput: owned, of: names[record.topic.index], because: refusal, atMs: nowMs)
        return made(letter, for: deadLetters)
    }
}

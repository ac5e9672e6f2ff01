internal import Kafka
internal import PushRecords

extension RecordPublisher {
    /// Returns the replacement of a record that the broker refuses even when the record is alone in its batch. The
    /// replacement has the same tag, and may have another topic.
    ///
    /// - A dead letter has a reduced form, which has no further replacement.
    /// - A result that is too large has a reduced form. Any other refused result, and a refused reduced form, becomes a
    ///   dead letter.
    /// - The notification of a retry record is abandoned, because there is no other topic where it could wait.
    /// - A dead token becomes a dead letter.
    func replacement(
        of record: UndeliveredRecord, _ form: TargetTopic.Form, because code: KafkaCode, nowMs: Int64
    ) -> UndeliveredRecord {
        let refusal: ReducedRecord.Refusal = code == .messageTooLarge ? .tooLarge : .named(code.name)
        let owned = record.withParts { key, value, headers in
            OwnedRecord(copying: key, value, headers: headers.asRecordHeaders)
        }
        var (smaller, topic): (OwnedRecord?, ProducerTopic) = (nil, results)
        if record.topic == deadLetters {
            (smaller, topic) = (ReducedRecord.deadLetter(owned), deadLetters)
        } else if record.topic == results, refusal == .tooLarge, form < .reduced {
            smaller = ReducedRecord.result(owned)
        } else if tiers.contains(record.topic) {
            smaller = ReducedRecord.abandonedResult(ofRetry: owned, because: refusal, settledAtMs: nowMs)
        }
        if smaller == nil { topic = deadLetters }
        let made =
            smaller
            ?? ReducedRecord.deadLetter(
                ofOutput: owned, of: producer.topicNames[record.topic.index], because: refusal, atMs: nowMs)
        return made.withLent { key, value, headers in
            UndeliveredRecord(
                copying: key, value, headers: headers.asMessageHeaders, to: topic, tag: record.tag)
        }
    }
}

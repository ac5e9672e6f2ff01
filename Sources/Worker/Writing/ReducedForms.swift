internal import Kafka
internal import PushRecords

extension RecordPublisher {
    /// Returns the record to produce instead of a record that the broker refuses even when it is alone in its batch.
    /// The replacement has the same tag. It depends on the refused record:
    ///
    /// - A dead letter is replaced by its reduced form. Do not call the method for a reduced dead letter.
    /// - A result that is too large is replaced by its reduced form. If the broker also refuses the reduced form, or
    ///   refuses a result for another reason, the result is replaced by a dead letter.
    /// - A retry record is replaced by a result with the outcome `abandoned`, because its notification cannot wait in
    ///   any other topic.
    /// - A dead token is replaced by a dead letter.
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

internal import Kafka
internal import PushRecords

/// What is written in the place of a record that is too large for its topic even by itself.
struct SmallerForms {
    enum Next {
        /// For the same topic.
        case same(UndeliveredRecord, TargetTopic.Form)
        /// For the results, under the same tag.
        case result(UndeliveredRecord)
    }

    let results: ProducerTopic
    let deadLetters: ProducerTopic
    let tiers: [ProducerTopic]

    /// The form after `form`; `nil`: nothing smaller says what it must.
    ///
    /// - A dead letter: without its value; then its place, its reason and the first bytes.
    /// - A result: what became of which notification.
    /// - A retry record: its notification is abandoned, since there is no place where it could wait.
    func form(after form: TargetTopic.Form, of record: UndeliveredRecord, settledAtMs: Int64) -> Next? {
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
        if record.topic == deadLetters, form < .least {
            guard let value = owned.value, form < .reduced else {
                return .same(made(ReducedRecord.deadLetter(owned), for: deadLetters), .least)
            }
            var bare = owned
            bare.value = nil
            bare.headers.append(
                OwnedRecord.Header(Array("push-dlq-truncated".utf8), Array("\(value.count)".utf8)))
            return .same(made(bare, for: deadLetters), .reduced)
        }
        if record.topic == results, form < .least {
            return ReducedRecord.result(owned).map { .same(made($0, for: results), .least) }
        }
        if tiers.contains(record.topic) {
            return ReducedRecord.abandonedResult(ofRetry: owned, settledAtMs: settledAtMs)
                .map { .result(made($0, for: results)) }
        }
        return nil
    }
}

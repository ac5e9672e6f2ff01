import CRdkafka

/// Transactions (KIP-98): what a producer with `ProducerSettings.transaction` writes, and the offsets that it commits
/// with it, are all there or not at all, for readers of committed records, as the worker's are.
///
/// The order is `initializeTransactions` once, then again and again `beginTransaction`, `produce`, `serve` until
/// nothing is outstanding, `addOffsets`, `commitTransaction`. All on the producer's thread; each call that asks brokers
/// waits for them. Nothing undoes a transaction but its end: a new producer's beginning, or its time limit. After an
/// error that does not pass (`KafkaError.isPassing`) nothing can be done with this producer any more. Whether its last
/// transaction was committed the group's offsets tell.
extension Producer {
    /// Ends what an earlier producer with the same id left open, and keeps it from writing any more: the last one to
    /// call this is the one that counts. Waits at most `timeoutMs`; after an error that passes it goes on where it was.
    ///
    /// What the other one had committed is committed when this returns, so the group's offsets are to be asked for
    /// afterwards, and not before.
    package func initializeTransactions(timeoutMs: Int32) throws(KafkaError) {
        try unsafe check(rd_kafka_init_transactions(client.handle.raw, timeoutMs))
    }

    /// From here on until its end the transaction's records hold up readers of committed records in their partitions.
    package func beginTransaction() throws(KafkaError) {
        try unsafe check(rd_kafka_begin_transaction(client.handle.raw))
    }

    /// Has offsets of a group without members committed with what is produced. It may be repeated with the same ones
    /// (rdkafka.h). Throws at once what has befallen the transaction before.
    package func addOffsets(_ entries: [CommitEntry], group: String) throws(KafkaError) {
        let list = PartitionList(entries)
        let metadata: OpaquePointer? = unsafe rd_kafka_consumer_group_metadata_new(group)
        defer { unsafe rd_kafka_consumer_group_metadata_destroy(metadata) }
        try again { () throws(KafkaError) in
            // Two calls of 5 s take less than a transaction's time limit.
            try unsafe check(
                rd_kafka_send_offsets_to_transaction(client.handle.raw, list.raw, metadata, 5_000))
        }
    }

    /// Commits what was produced since `beginTransaction`, and the offsets that were added, together.
    ///
    /// Nothing may be outstanding: librdkafka would wait for reports that are not served meanwhile (rdkafka.h,
    /// rd_kafka_commit_transaction). It waits for the brokers for what is left of the transaction's time, as is
    /// recommended there. After an error that does not pass, it is unknown whether the transaction was committed.
    package func commitTransaction() throws(KafkaError) {
        precondition(outstanding == 0, "a transaction is committed while records are outstanding")
        try again { () throws(KafkaError) in
            try unsafe check(rd_kafka_commit_transaction(client.handle.raw, -1))
        }
    }

    /// Whether an event tells that the transaction has failed; why, its next step throws. Records that were not sent
    /// yet wait on, and have no report (rdkafka_txnmgr.c, rd_kafka_txn_set_abortable_error).
    package static func tellsFailedTransaction(_ event: ClientEvent) -> Bool {
        if case .log(_, "TXNERR", _) = event { true } else { false }
    }

    /// Calls once more after an error that passes, since the caller cannot go on in the middle.
    private func again(_ call: () throws(KafkaError) -> Void) throws(KafkaError) {
        do throws(KafkaError) {
            try call()
        } catch {
            guard error.isPassing else { throw error }
            try call()
        }
    }
}

extension Producer {
    /// Makes the client fail fatally, as a broker's answer would. For tests.
    func failFatally(_ code: KafkaCode) {
        _ = unsafe rd_kafka_test_fatal_error(client.handle.raw, code.c, "a test asked for it")
    }
}

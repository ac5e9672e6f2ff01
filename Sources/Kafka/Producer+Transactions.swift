import CRdkafka

/// Transactions (KIP-98) of a producer with a `ProducerSettings.transactionalID`. The records and offsets of one
/// transaction become visible together or not at all to readers of committed records, such as the worker.
///
/// Call `initializeTransactions` once. For each transaction, call `beginTransaction`, call `produce` for each record,
/// call `serve` until no report is outstanding, and then call `addOffsets` and `commitTransaction`. Make all calls on
/// one thread. Calls that send requests wait for the answers. Brokers abort an open transaction when another producer
/// starts with the same transactional id, or at the transaction timeout. A producer cannot be used after an error that
/// is not temporary (`KafkaError.isPassing`). The group's offsets then show whether the transaction was committed.
extension Producer {
    /// Aborts the open transaction of an earlier producer with the same id and fences that producer. Waits up to
    /// `timeoutMs`. After a temporary error, the next call continues the initialization.
    ///
    /// The earlier producer's commits are complete when this returns. Read the group's offsets after this call, not
    /// before.
    package func initializeTransactions(timeoutMs: Int32) throws(KafkaError) {
        try unsafe check(rd_kafka_init_transactions(client.handle.raw, timeoutMs))
    }

    /// Begins a transaction. Until its end, readers of committed records cannot read past its records.
    package func beginTransaction() throws(KafkaError) {
        try unsafe check(rd_kafka_begin_transaction(client.handle.raw))
    }

    /// Adds offsets to the transaction for a group without members. It is safe to repeat the call with the same offsets
    /// (rdkafka.h). Throws without sending a request if the transaction has already failed.
    package func addOffsets(_ entries: [CommitEntry], group: String) throws(KafkaError) {
        let list = PartitionList(entries)
        let metadata: OpaquePointer? = unsafe rd_kafka_consumer_group_metadata_new(group)
        defer { unsafe rd_kafka_consumer_group_metadata_destroy(metadata) }
        try again { () throws(KafkaError) in
            // At most two calls are made. Each waits up to 5 s, so both take less time than the transaction timeout.
            try unsafe check(
                rd_kafka_send_offsets_to_transaction(client.handle.raw, list.raw, metadata, 5_000))
        }
    }

    /// Commits the records produced since `beginTransaction` together with the added offsets.
    ///
    /// No report may be outstanding, because librdkafka would wait for reports that nothing serves during the call
    /// (rdkafka.h, rd_kafka_commit_transaction). The call waits for at most the rest of the transaction timeout, as
    /// rdkafka.h recommends. After an error that is not temporary, the transaction may or may not be committed.
    package func commitTransaction() throws(KafkaError) {
        precondition(outstanding == 0, "all delivery reports must arrive before the transaction is committed")
        try again { () throws(KafkaError) in
            try unsafe check(rd_kafka_commit_transaction(client.handle.raw, -1))
        }
    }

    /// Returns whether an event reports that the transaction has failed. `addOffsets` and `commitTransaction` then
    /// throw the reason. Records that were not sent stay queued and get no report (rdkafka_txnmgr.c,
    /// rd_kafka_txn_set_abortable_error).
    package static func tellsFailedTransaction(_ event: ClientEvent) -> Bool {
        if case .log(_, "TXNERR", _) = event { true } else { false }
    }

    /// Makes a call, and repeats it once after a temporary error. The transaction cannot continue until the call
    /// succeeds.
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
    /// Makes the client report a fatal error, as after an error from a broker. For tests.
    func failFatally(_ code: KafkaCode) {
        _ = unsafe rd_kafka_test_fatal_error(client.handle.raw, code.c, "a test made the client fail")
    }
}

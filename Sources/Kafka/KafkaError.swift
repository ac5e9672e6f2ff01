import CRdkafka

/// An error code of a broker or, if negative, of librdkafka. A code that this librdkafka version does not define is
/// kept as its number.
package struct KafkaCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    package let rawValue: Int32

    @inlinable package init(rawValue: Int32) { self.rawValue = rawValue }

    init(_ code: rd_kafka_resp_err_t) { rawValue = code.rawValue }

    var c: rd_kafka_resp_err_t { rd_kafka_resp_err_t(rawValue: rawValue) }

    package static let none = KafkaCode(rawValue: 0)
    package static let fatal = KafkaCode(RD_KAFKA_RESP_ERR__FATAL)
    package static let queueFull = KafkaCode(RD_KAFKA_RESP_ERR__QUEUE_FULL)
    package static let purgedInQueue = KafkaCode(RD_KAFKA_RESP_ERR__PURGE_QUEUE)
    package static let purgedInFlight = KafkaCode(RD_KAFKA_RESP_ERR__PURGE_INFLIGHT)
    /// The code of a delivery report (`DeliveryReport.code`) if librdkafka only infers that the record was written,
    /// without a broker's confirmation.
    package static let inconsistent = KafkaCode(RD_KAFKA_RESP_ERR__INCONSISTENT)
    package static let transport = KafkaCode(RD_KAFKA_RESP_ERR__TRANSPORT)
    package static let timedOut = KafkaCode(RD_KAFKA_RESP_ERR__TIMED_OUT)
    package static let authentication = KafkaCode(RD_KAFKA_RESP_ERR__AUTHENTICATION)
    package static let invalidArgument = KafkaCode(RD_KAFKA_RESP_ERR__INVALID_ARG)
    package static let wrongState = KafkaCode(RD_KAFKA_RESP_ERR__STATE)
    package static let noOffset = KafkaCode(RD_KAFKA_RESP_ERR__NO_OFFSET)
    /// The error of a partition that has no record at the requested offset (`auto.offset.reset: error`). librdkafka has
    /// stopped reading the partition.
    package static let autoOffsetReset = KafkaCode(RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
    package static let offsetOutOfRange = KafkaCode(RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
    package static let partitionEnd = KafkaCode(RD_KAFKA_RESP_ERR__PARTITION_EOF)
    package static let badMessage = KafkaCode(RD_KAFKA_RESP_ERR__BAD_MSG)
    package static let notImplemented = KafkaCode(RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED)
    package static let unknownTopicOrPartition = KafkaCode(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
    /// The code UNKNOWN_TOPIC_ID, which librdkafka 2.0.2 does not define.
    package static let unknownTopicID = KafkaCode(rawValue: 100)
    package static let topicAlreadyExists = KafkaCode(RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
    package static let topicAuthorizationFailed = KafkaCode(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
    package static let groupAuthorizationFailed = KafkaCode(RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
    package static let messageTooLarge = KafkaCode(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
    package static let invalidTimestamp = KafkaCode(RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP)
    package static let offsetMetadataTooLarge = KafkaCode(RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE)
    package static let rebalanceInProgress = KafkaCode(RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS)
    package static let illegalGeneration = KafkaCode(RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION)
    package static let unknownMember = KafkaCode(RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID)
    package static let fencedInstance = KafkaCode(RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
    package static let unknownTopic = KafkaCode(RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
    package static let invalidTopic = KafkaCode(RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION)
    package static let unsupportedForMessageFormat = KafkaCode(RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT)
    /// The code `_INVALID_DIFFERENT_RECORD`: the broker rejected the whole batch because another record in it is
    /// invalid. librdkafka 2.0.2 does not define this code.
    package static let batchWithInvalidRecord = KafkaCode(rawValue: -138)
    package static let invalidRecord = KafkaCode(RD_KAFKA_RESP_ERR_INVALID_RECORD)
    package static let invalidReplicationFactor = KafkaCode(RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR)
    package static let invalidPartitions = KafkaCode(RD_KAFKA_RESP_ERR_INVALID_PARTITIONS)
    package static let policyViolation = KafkaCode(RD_KAFKA_RESP_ERR_POLICY_VIOLATION)
    package static let clusterAuthorizationFailed = KafkaCode(RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED)
    package static let badCompression = KafkaCode(RD_KAFKA_RESP_ERR__BAD_COMPRESSION)
    package static let coordinatorNotAvailable = KafkaCode(RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE)
    package static let coordinatorLoading = KafkaCode(RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS)
    package static let requestTimedOut = KafkaCode(RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT)
    package static let timedOutInQueue = KafkaCode(RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE)
    package static let allBrokersDown = KafkaCode(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
    package static let notCoordinator = KafkaCode(RD_KAFKA_RESP_ERR_NOT_COORDINATOR)
    /// The code for a thread that could not be created, because of a limit or missing memory.
    package static let noResources = KafkaCode(RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE)
    package static let transactionalIDAuthorizationFailed = KafkaCode(
        RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    package static let waitingForCoordinator = KafkaCode(RD_KAFKA_RESP_ERR__WAIT_COORD)

    /// The advice for users after the error `noResources`.
    package static let roomForThreads =
        "allow the process more threads: raise ulimit -u (RLIMIT_NPROC) or the container's pids.max, or free memory"

    /// The name in rdkafka.h without its prefix, such as `_QUEUE_FULL` or `OFFSET_METADATA_TOO_LARGE`.
    package var name: String { unsafe String(cString: rd_kafka_err2name(c)) }

    package var text: String { unsafe String(cString: rd_kafka_err2str(c)) }

    /// Whether a commit failed because the assignment may be outdated. Repeat it for partitions still assigned.
    package var isRebalance: Bool {
        [.rebalanceInProgress, .illegalGeneration, .unknownMember].contains(self)
            || c == RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST
    }

    /// Whether another producer with the same transactional id has started, or the brokers aborted the transaction
    /// after its time limit. Brokers use the same codes in both cases.
    package var isFenced: Bool {
        [RD_KAFKA_RESP_ERR__FENCED, RD_KAFKA_RESP_ERR_PRODUCER_FENCED, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH]
            .contains(c)
    }

    package var isUnknownTopic: Bool {
        self == .unknownTopicOrPartition || self == .unknownTopicID || self == .unknownTopic
            || c == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION
    }

    package var description: String { name }
}

package struct KafkaError: Error, Hashable, Sendable, CustomStringConvertible {
    package let code: KafkaCode
    /// A description of the error for users, never empty: librdkafka's text, unless `init` was given another one.
    package let text: String
    /// Whether the error is temporary, so that the caller can repeat the failed call after a pause. No data is lost.
    /// librdkafka may continue the operation in the background.
    package let isPassing: Bool

    package init(_ code: KafkaCode, _ text: String = "", isPassing: Bool = false) {
        self.code = code
        self.text = text.isEmpty ? code.text : text
        self.isPassing = isPassing
    }

    /// Returns the error of the last librdkafka call on this thread, for functions that return no code.
    static func last(_ subject: String) -> KafkaError {
        let code = KafkaCode(rd_kafka_last_error())
        return KafkaError(code, "\(subject): \(code.text)")
    }

    /// Copies and frees an error object (rdkafka.h: the caller owns it).
    ///
    /// An error that requires rd_kafka_abort_transaction does not count as temporary (`isPassing`), because brokers may
    /// reject the producer's records after an abort (<doc:KafkaFacts>, Transactions).
    init(adopting error: OpaquePointer) {
        self.init(
            KafkaCode(unsafe rd_kafka_error_code(error)), unsafe String(cString: rd_kafka_error_string(error)),
            isPassing: unsafe rd_kafka_error_txn_requires_abort(error) == 0 && rd_kafka_error_is_retriable(error) != 0)
        unsafe rd_kafka_error_destroy(error)
    }

    package var description: String { "\(text) (\(code.name))" }
}

/// Throws if `code`, the return value of a librdkafka function, is an error.
func check(_ code: rd_kafka_resp_err_t) throws(KafkaError) {
    guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(KafkaCode(code)) }
}

/// Throws if `error`, the return value of a librdkafka function, is not NULL, and frees the error object.
func check(_ error: OpaquePointer?) throws(KafkaError) {
    if let error = unsafe error { throw unsafe KafkaError(adopting: error) }
}

/// Messages that tell the user of a command which permission is missing. The functions with a `KafkaCode` return `nil`
/// if the code does not mean a missing permission.
package enum Denial {
    package static func reading(_ topic: String, _ code: KafkaCode) -> String? {
        code == .topicAuthorizationFailed ? "topic \(topic) cannot be read: grant READ on topic \(topic)" : nil
    }

    /// Returns the topics' names for a message: `topic a`, or `topics a, b`.
    package static func naming(_ topics: [String]) -> String {
        "\(topics.count == 1 ? "topic" : "topics") \(topics.joined(separator: ", "))"
    }

    package static func writing(_ topics: [String], _ code: KafkaCode) -> String? {
        let these = naming(topics)
        return switch code {
        case .topicAuthorizationFailed: "\(these) cannot be written: grant WRITE on \(these)"
        case .clusterAuthorizationFailed:
            "\(these) cannot be written: grant WRITE on \(these), or IDEMPOTENT_WRITE on the cluster"
        default: nil
        }
    }

    package static func using(group: String, _ code: KafkaCode) -> String? {
        code == .groupAuthorizationFailed ? "group \(group) cannot be used: grant READ on group \(group)" : nil
    }

    package static func writing(transactionalID id: String, _ code: KafkaCode) -> String? {
        code == .transactionalIDAuthorizationFailed
            ? "the transaction cannot be started: grant WRITE and DESCRIBE on transactional id \(id)" : nil
    }
}

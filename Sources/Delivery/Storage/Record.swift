internal import CLinux
import PushRecords

/// A record of Kafka with something open in it: what the ledger needs, as long as it needs it.
struct Record {
    /// `.none`: the assignment is gone.
    var partition = PartitionSlot.none
    var group: Int32 = 0
    var offset: Int64 = 0
    var timestampMs: Int64 = 0
    /// From when its settling is timed: `RecordTime.start`. Unknown while it is not due, since it only goes to a tier
    /// then.
    var startMs: Int64 = 0
    /// Monotonic.
    var receivedNs: Int64 = 0
    /// In the ledger's entries.
    var position: UInt64 = 0
    /// What is sent; `nil` once no notification needs it.
    var body: UnsafeMutablePointer<RecordBody>?
    /// Settled indexes of a fan-out, as bits; `nil` if it has one notification.
    var settledIndexes: UnsafeMutablePointer<UInt64>?
    /// Notifications, of which this many were admitted.
    var count: Int32 = 0
    var cursor = TokenCursor()
    /// Admitted and not settled.
    var unsettled: Int32 = 0
    /// Notifications, or the rest of a fan-out, that need the body.
    var holders: Int32 = 0
    /// Unsettled notifications with a send in doubt.
    var doubts: Int32 = 0
    /// Notifications handed to a transport and unanswered.
    var handed: Int32 = 0
    /// Some indexes are settled.
    var hasSettledIndexes = false
    /// Something of it was dropped: it does not settle in this assignment.
    var isDropped = false
    /// The record of its partition that is admitted after it.
    var nextAdmitting = RecordSlot.none

    var indexWordCount: Int { Int(count + 63) / 64 }
    var isAdmitted: Bool { cursor.index >= count }
}

/// What the notifications of a record share; at the head of the block that holds its bytes.
struct RecordBody {
    /// Where it was read. The first: what points to a body points to its place.
    var place: CrashPlace
    var blockSize: Int
    var payload: UnsafeRawBufferPointer
    /// As the producer gave them, with the app's topic where there was none.
    var headers: NotificationHeaders
    var key: UnsafeRawBufferPointer
    /// The list of a fan-out's tokens, as it was written; else the one token or channel id, normalized.
    var tokens: UnsafeRawBufferPointer
    var isList: Bool
    /// What is wrong with the one token.
    var tokenFailure: ReasonCode
    var copiedHeaders: UnsafeBufferPointer<RecordHeader>
    var isBroadcast: Bool
    /// -1 if no app is known.
    var app: Int32
    /// The same, but of a retry record whose token another app called bad before (`unknownApp`: one that is not there).
    var firstApp: Int32
    /// Each notification is refused: `failureReason` and `detail` say why.
    var isInvalid: Bool
    /// Each notification is too old to be sent.
    var isExpired: Bool
    var failureReason: ReasonCode
    var detail: Detail
    /// The original request; its index is that of the notification of a retry record.
    var request: RequestPlace
    /// Of the original record.
    var firstMs: Int64
    /// Sends and doubts before this worker.
    var sends: Int32
    var inDoubt: Int32
    /// An owner that died may have sent it: one more send in doubt for each token that is not refused, as it was there.
    var isInDoubt: Bool
    /// Attempts used up.
    var attempt: Int32
    /// Delay of the tier it was read from, or 0 for a request topic.
    var tierDelayMs: Int64
    /// Of the topic it was read from.
    var topicHash: UInt64
    /// When its notifications are to be sent, in seconds since the epoch, or 0 for at once.
    var notBefore: UInt32
    /// What the result of each notification repeats of it, beyond what every result has.
    var repeatedBytes: Int32 = 0

    /// No notification of it is handed out before, by the wall clock.
    @inline(__always)
    var notBeforeMs: Int64 { Int64(notBefore) &* 1_000 }

    /// No app that is configured here, where there was one.
    static let unknownApp: Int32 = -2
    /// Bytes of a result that are not counted: what every one has is bounded by the number of notifications.
    static let fixedResultBytes = 512

    /// The id that the request of a notification carries, or `.none` if Apple makes one.
    ///
    /// - Parameter isDerived: it spells the request's place, where the producer gave none.
    @inline(__always)
    func requestID(index: Int32, isDerived: Bool) -> NotificationUUID {
        if headers.apnsID != .none || !isDerived || tierDelayMs > 0 { return headers.apnsID }
        return DerivedID.make(
            topicHash: topicHash, partition: request.partition, offset: request.offset, index: index)
    }

    /// Counts `repeatedBytes`.
    mutating func countRepeated() {
        var bytes = min(key.count, RecordLimits.key) + headers.topic.count
        for header in copiedHeaders { bytes += header.name.count + header.value.count }
        repeatedBytes = Int32(clamping: max(0, bytes - Self.fixedResultBytes))
    }
}

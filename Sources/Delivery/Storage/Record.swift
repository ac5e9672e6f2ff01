internal import CLinux
import PushRecords

/// A Kafka record with open notifications.
struct Record {
    /// The slot of the record's assignment, or `.none` if the assignment has ended.
    var partition = PartitionSlot.none
    var group: Int32 = 0
    var offset: Int64 = 0
    var timestampMs: Int64 = 0
    /// The start of the measured time to the record's settlement (`RecordTime.start`). Unknown if the record is
    /// scheduled for later, because it then only moves to a tier.
    var startMs: Int64 = 0
    /// When the record was received (monotonic).
    var receivedNs: Int64 = 0
    /// The record's position in the entries of `PartitionLedger`.
    var position: UInt64 = 0
    /// The values that the record's notifications share, or `nil` once no notification needs them.
    var body: UnsafeMutablePointer<RecordBody>?
    /// The settled indexes of a fan-out as bits, or `nil` for a record with one notification.
    var settledIndexes: UnsafeMutablePointer<UInt64>?
    /// The number of the record's notifications, of which `cursor.index` were admitted.
    var count: Int32 = 0
    var cursor = TokenCursor()
    /// The number of the record's admitted notifications that are not settled.
    var unsettled: Int32 = 0
    /// The number of users of the body: notifications, and the part of a fan-out that is not admitted yet.
    var holders: Int32 = 0
    /// The number of the record's unsettled notifications with a send in doubt.
    var doubts: Int32 = 0
    /// The number of the record's notifications that were handed to a transport and are unanswered.
    var handed: Int32 = 0
    /// Whether any index of the record is settled.
    var hasSettledIndexes = false
    /// Whether a notification of the record was dropped. The record then does not settle in this assignment.
    var isDropped = false
    /// The next record of its partition that waits for admission.
    var nextAdmitting = RecordSlot.none

    var indexWordCount: Int { Int(count + 63) / 64 }
    var isAdmitted: Bool { cursor.index >= count }
}

/// The values that the notifications of a record share, at the start of the block with the record's bytes.
struct RecordBody {
    /// The place from which the record was read. The first member, because `place(of:)` converts the address.
    var place: CrashPlace
    var blockSize: Int
    var payload: UnsafeRawBufferPointer
    /// The producer's headers, with the app's topic if the producer gave none.
    var headers: ParsedRequest.Headers
    var key: UnsafeRawBufferPointer
    /// The encoded list of a fan-out's tokens, or the normalized token or channel id.
    var tokens: UnsafeRawBufferPointer
    var isList: Bool
    /// The reason why the token of a record with one notification is invalid, if it is.
    var tokenFailure: ReasonCode
    var copiedHeaders: UnsafeBufferPointer<RecordHeader>
    var isBroadcast: Bool
    /// The app's index, or -1 if no app is known.
    var app: Int32
    /// The index of the app that was tried first. Differs from `app` only in a retry record whose token another app
    /// rejected as bad, and is `unknownApp` if this worker does not know that app.
    var firstApp: Int32
    /// Whether each notification of the record is rejected, because of `failureReason` and `detail`.
    var isInvalid: Bool
    /// Whether each notification of the record is too old to be sent.
    var isExpired: Bool
    var failureReason: ReasonCode
    var detail: Detail
    /// The place of the original request. In a retry record, the place's index is the index of the notification.
    var request: RequestPlace
    /// The timestamp of the original request record.
    var firstMs: Int64
    /// The numbers of sends, and of sends in doubt, by previous workers.
    var sends: Int32
    var inDoubt: Int32
    /// Whether a crashed owner may have sent the record. Each valid token then counts one more send in doubt.
    var isInDoubt: Bool
    /// The number of attempts that the notifications of the record have used up.
    var attempt: Int32
    /// The delay of the retry tier from which the record was read, or 0 for a request topic.
    var tierDelayMs: Int64
    /// The hash of the topic from which the record was read.
    var topicHash: UInt64
    /// The scheduled time in seconds since the epoch, or 0 if the request is not scheduled.
    var notBefore: UInt32
    /// The number of bytes that each result repeats from the record (key, topic, copied headers) beyond
    /// `fixedResultBytes`.
    var repeatedBytes: Int32 = 0

    /// The time before which no notification is handed to a transport (wall clock).
    @inline(__always)
    var notBeforeMs: Int64 { Int64(notBefore) &* 1_000 }

    /// The value of `firstApp` for an app that is not configured here.
    static let unknownApp: Int32 = -2
    /// The number of bytes that every result may have uncounted, because the number of results is limited.
    static let fixedResultBytes = 512

    /// Returns the `apns-id` of a notification, or `.none` if Apple creates it.
    ///
    /// - Parameter isDerived: Whether to derive an id from the request's place if the producer gave none.
    @inline(__always)
    func requestID(index: Int32, isDerived: Bool) -> NotificationUUID {
        if headers.apnsID != .none || !isDerived || tierDelayMs > 0 { return headers.apnsID }
        return DerivedID.make(
            topicHash: topicHash, partition: request.partition, offset: request.offset, index: index)
    }

    /// Calculates `repeatedBytes` from the key, the topic and the copied headers.
    mutating func countRepeated() {
        var bytes = min(key.count, RecordLimits.key) + headers.topic.count
        for header in copiedHeaders { bytes += header.name.count + header.value.count }
        repeatedBytes = Int32(clamping: max(0, bytes - Self.fixedResultBytes))
    }
}

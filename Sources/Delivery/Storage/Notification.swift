internal import CLinux
import PushRecords

/// An open notification. Its size is less than three cache lines. Values that all notifications of a record share are
/// in `Record` and `Record.Body`.
package struct Notification {
    enum State: Equatable {
        case free
        /// Admitted, and in no list. The call that sets this state replaces it with another state before it returns.
        case admitted
        /// Waits in the queue of its device behind another notification.
        case queued
        /// Waits in the queue of its app for a free stream.
        case ready
        /// Waits for the send horizon to rise above its record, and is then sent or moved to a retry tier.
        case behindHorizon
        /// Waits until this monotonic time, and then joins its app's queue. The wait precedes a resend, or a send to a
        /// device for which APNs reported too many notifications.
        case backingOff(untilNs: Int64)
        /// Handed to a transport at this millisecond of the monotonic clock (wraps around). The transport borrows the
        /// notification's bytes until the completion. If the assignment ends earlier, the completion frees the slot.
        case handed(atMs: UInt32)
        /// The outcome is known, or the notification moves to a retry topic. Kafka has not acknowledged all output
        /// records.
        case concluded(Ending)

        /// Whether the notification waits: in its device's queue, for a stream, for the send horizon, or in a pause.
        var isWaiting: Bool {
            switch self {
            case .queued, .ready, .behindHorizon, .backingOff: true
            case .free, .admitted, .handed, .concluded: false
            }
        }

        var isConcluded: Bool { if case .concluded = self { true } else { false } }
    }

    /// The records to produce for a concluded notification.
    enum Ending: Equatable {
        case result(Outcome)
        /// A retry record with its due time (wall clock). `isAttempt` tells whether the retry uses up an attempt.
        case retry(dueMs: Int64, isAttempt: Bool)
        /// A dead letter (`DeadLetterReason`). The publisher owns the dead letter's bytes.
        case deadLetter
    }

    /// The links of a notification in its device's queue. `tail`, `count` and `turnedAway` are valid only for the head
    /// of the queue.
    struct DeviceLink {
        var hash: UInt32 = 0
        var next = NotificationSlot.none
        var tail = NotificationSlot.none
        var count: UInt16 = 0
        /// The number of notifications that were deferred because the queue was full, since the queue formed.
        var turnedAway: UInt16 = 0
    }

    struct Tries {
        enum Past: UInt8 {
            case untried
            /// A transport of this worker has completed a send of the notification.
            case tried
            /// Like `tried`, with a send in doubt. `Record.doubts` counts the notifications in this state.
            case inDoubt
        }

        /// The number of sends that APNs may have processed. Like `inDoubt`, it includes those of previous workers.
        var sends: Int32 = 0
        var inDoubt: Int32 = 0
        /// The number of this worker's resends that count towards `resendMax`. The counts below do not include sends of
        /// previous workers either.
        var resends: UInt8 = 0
        /// The number of consecutive sends that APNs did not process, or that were on a connection that went silent.
        var returns: UInt8 = 0
        /// The number of consecutive sends that APNs refused to process.
        var refusals: UInt8 = 0
        /// The number of times that the connection was lost while the notification was in flight on it. Connections
        /// that went silent do not count.
        var deaths: UInt8 = 0
        /// The reason of the answer that caused the notification's last resend.
        var resentFor = ReasonCode.none
        var past = Past.untried
        /// Whether APNs reported too many notifications for the device, so that the next notification of the device
        /// waits for a second.
        var slowsDevice = false
    }

    /// The last answer of APNs, or the worker's reason for rejecting the notification.
    struct Answer {
        enum Remark: UInt8 {
            case none
            /// The gateway of the binary protocol stayed silent, so the notification counts as accepted.
            case presumed
            /// APNs rejected the device token in both environments.
            case badInBoth
        }

        /// The `apns-id` that Apple created, if the request had none.
        var apnsID = NotificationUUID.none
        var unregisteredAtMs: Int64 = 0
        var status: UInt16 = 0
        var reason = ReasonCode.none
        var remark = Remark.none
    }

    /// The generation of the slot's current id. It changes when earlier ids of the slot become invalid.
    var generation: UInt32 = 0
    var record = RecordSlot.none
    var state = State.free
    /// Whether the notification is in the queue of its device.
    var isInDeviceQueue = false
    /// The reason to move the notification to a retry tier, instead of sending it, once the send horizon is above its
    /// record.
    var deferral: DeferralReason?
    /// For `.device`, the index of the retry tier whose delay is about as long as the expected wait for the device.
    var deviceTier: UInt8 = 0
    /// The number of output records that the producer has not copied yet.
    var unproduced: UInt8 = 0
    var unacknowledged: UInt8 = 0
    /// The size of the token's separate block, or 0 if the token is in the record's block.
    var tokenBlockSize: Int16 = 0

    /// The index of the notification's token in the record's list of tokens.
    var index: Int32 = 0
    /// The app's index, or -1 if no app is known. Changes when the notification is forwarded to the app of
    /// `AppRoute.otherEnvironment`.
    var app: Int32 = -1

    // The previous and next notification in the same `List`: the notifications that wait for a stream, for a higher
    // send horizon, or for the time in `State.backingOff`.
    var previous = NotificationSlot.none
    var next = NotificationSlot.none
    var queue = DeviceLink()

    var token = UnsafeRawBufferPointer.nothing
    /// The number of bytes that the budget counts for this notification until it settles, besides its record's block
    /// and its token's block (`NotificationStore.takeBytes`).
    var countedBytes: Int32 = 0
    /// When the notification began to wait in its app's queue (monotonic). A resend that joins the head of the queue
    /// keeps this time.
    var sinceNs: Int64 = 0
    /// When this worker last sent the notification (wall clock), or 0 if it has not sent the notification.
    var sentAtMs: Int64 = 0
    var tries = Tries()
    var answer = Answer()

    /// Whether the notification is sent on the quarantine connection, because three connections were lost during its
    /// sends, or APNs refused to process it six times in a row.
    @inline(__always)
    var isSuspect: Bool { tries.deaths >= 3 || tries.refusals >= 6 }
}

extension Notification {
    /// A list of notifications, linked by `previous` and `next`. Each notification is in at most one list.
    struct List {
        private(set) var head = NotificationSlot.none
        private(set) var tail = NotificationSlot.none

        var isEmpty: Bool { head == .none }

        mutating func append(_ slot: NotificationSlot, in store: inout NotificationStore) {
            store[slot].previous = tail
            store[slot].next = .none
            if tail == .none { head = slot } else { store[tail].next = slot }
            tail = slot
        }

        mutating func prepend(_ slot: NotificationSlot, in store: inout NotificationStore) {
            store[slot].previous = .none
            store[slot].next = head
            if head == .none { tail = slot } else { store[head].previous = slot }
            head = slot
        }

        mutating func remove(_ slot: NotificationSlot, from store: inout NotificationStore) {
            precondition(head != .none, "The removed notification must be in the list")
            let previous = store[slot].previous
            let next = store[slot].next
            if previous == .none { head = next } else { store[previous].next = next }
            if next == .none { tail = previous } else { store[next].previous = previous }
        }
    }
}

/// A Kafka record with open notifications.
package struct Record {
    /// The slot of the record's assignment, or `.none` if the assignment has ended.
    var partition = PartitionSlot.none
    var group: Int32 = 0
    var offset: Int64 = 0
    var timestampMs: Int64 = 0
    /// The time from which `DeliveryCounters.App.settleTimes` counts (`RecordTime.start`). Unknown if the record is
    /// scheduled for later, because this worker then only moves it to a retry topic.
    var startMs: Int64 = 0
    /// When the record was received (monotonic).
    var receivedNs: Int64 = 0
    /// The record's position in the entries of `Partition.Offsets`.
    var position: UInt64 = 0
    /// The values that the record's notifications share, or `nil` once no notification needs them.
    var body: UnsafeMutablePointer<Body>?
    /// The settled indexes of a fan-out as bits, or `nil` for a record with one notification.
    var settledIndexes: UnsafeMutablePointer<UInt64>?
    /// The number of the record's notifications. The first `cursor.index` of them were admitted, or were settled
    /// before.
    var count: Int32 = 0
    var cursor = TokenCursor()
    /// The number of the record's admitted notifications that are not settled.
    var unsettled: Int32 = 0
    /// The number of references to the body: one for each notification that needs its bytes, and one for the record
    /// until it is completely admitted.
    var holders: Int32 = 0
    /// The number of the record's unsettled notifications with a send in doubt.
    var doubts: Int32 = 0
    /// The number of the record's notifications that were handed to a transport and are unanswered.
    var handed: Int32 = 0
    /// Whether any index of the record is settled.
    var hasSettledIndexes = false
    /// Whether a notification of the record was dropped or will not be admitted. The record then does not settle in
    /// this assignment.
    var isDropped = false
    /// The next record of its partition that waits for admission.
    var nextAdmitting = RecordSlot.none

    var indexWordCount: Int { Int(count + 63) / 64 }
    var isAdmitted: Bool { cursor.index >= count }
}

extension Record {
    /// The values that the notifications of a record share, at the start of the block with the record's bytes.
    struct Body {
        /// The topic, partition and offset of the record. Must stay the first member, because
        /// `NotificationStore.place(of:)` converts the address of the body.
        var place: CrashPlace
        var blockSize: Int
        var payload: UnsafeRawBufferPointer
        /// The producer's headers, with the app's topic if the producer set none.
        var headers: ParsedRequest.Headers
        var key: UnsafeRawBufferPointer
        /// The encoded list of a fan-out's tokens, or the normalized token or channel id.
        var tokens: UnsafeRawBufferPointer
        var isList: Bool
        /// For a record without a list of tokens, the reason why its token is invalid, or `.none`.
        var tokenFailure: ReasonCode
        var copiedHeaders: UnsafeBufferPointer<RecordHeader>
        var isBroadcast: Bool
        /// The app's index, or -1 if no app is known.
        var app: Int32
        /// The index of the app that was tried first. Differs from `app` only in a retry record whose token APNs
        /// rejected as bad for another app. `unknownApp` if that app is not configured here.
        var firstApp: Int32 = -1
        /// Whether the worker rejects all notifications of the record, with `failureReason` and `detail` as the reason.
        var isInvalid: Bool
        /// Whether each notification of the record is older than `delivery.max_age`.
        var isTooOld = false
        var failureReason: ReasonCode
        var detail: Detail
        /// The topic, partition and offset of the original request. For a retry record, the index is that of the
        /// notification in the original request, otherwise 0.
        var request: RequestPlace
        /// The timestamp of the original request record.
        var firstMs: Int64
        /// The number of earlier sends according to the retry record, and how many of these are in doubt.
        var sends: Int32
        var inDoubt: Int32
        /// Whether a previous owner of the partition may have sent the record's notifications. Each notification with a
        /// valid token then counts one more send in doubt.
        var isInDoubt = false
        /// The number of attempts that the notifications of the record have used up.
        var attempt: Int32
        /// The delay of the retry tier from which the record was read, or 0 for a request topic.
        var tierDelayMs: Int64
        /// The hash of the topic from which the record was read.
        var topicHash: UInt64
        /// The scheduled time in seconds since the epoch, or 0 if the request is not scheduled.
        var notBefore: UInt32
        /// The number of bytes by which the key, the topic and the copied headers of each result exceed
        /// `fixedResultBytes`.
        var repeatedBytes: Int32 = 0

        /// The time before which no notification is handed to a transport (wall clock).
        @inline(__always)
        var notBeforeMs: Int64 { Int64(notBefore) &* 1_000 }

        /// The value of `firstApp` for an app that is not configured here.
        static let unknownApp: Int32 = -2
        /// The number of bytes of a result's key, topic and copied headers that the budget does not count. The limit of
        /// open notifications bounds their total.
        static let fixedResultBytes = 512

        /// Returns the `apns-id` of a notification, or `.none` if Apple creates it.
        ///
        /// - Parameter isDerived: Whether to derive an id from the request's topic, partition, offset and index if the
        ///   producer gave none.
        @inline(__always)
        func requestID(index: Int32, isDerived: Bool) -> NotificationUUID {
            if headers.apnsID != .none || !isDerived || tierDelayMs > 0 { return headers.apnsID }
            return DerivedID.make(
                topicHash: topicHash, partition: request.partition, offset: request.offset, index: index)
        }
    }
}

internal import CLinux
import PushRecords

/// One assignment of a partition: its ledger, its reach, and how far it is on its way in and out.
struct Partition: ~Copyable {
    enum Phase: Equatable {
        /// Records are read and sent.
        case active
        /// Nothing is read or sent any more; what is on connections may settle.
        case draining
        /// As draining, but the last commit does not wait for it.
        case leaving
        /// The last commit was acknowledged, or there was nothing to say in one.
        case left
    }

    /// What a commit in flight says of this partition.
    struct Pending {
        var offset: Int64
        /// 0: none.
        var reach: Int64
        var isLast: Bool
        var characters: Int
    }

    let id: PartitionID
    let topicText: String
    /// The topic's name; owned.
    let topic: UnsafeRawBufferPointer
    let topicHash: UInt64
    let number: Int32
    /// Its records' place (of offset 0), for whoever dies at one.
    let place: CrashPlace
    let group: Int
    /// Delay of its tier; 0: a request topic.
    let tierDelayMs: Int64
    /// Place of its `CommitGroup`.
    let flight: Int

    var phase = Phase.active
    var ledger: PartitionLedger
    var reach: Reach
    /// Something settled, or became known to be, since the last commit was sent.
    var isDirty = false
    var pending: Pending?
    /// Acknowledged by the group; `nil`: nothing in this assignment.
    var committed: Int64?
    var metadataLimit: Int
    var isMapCut = false
    /// Notifications admitted, neither settled nor dropped.
    var open = 0
    /// Those that wait for the reach.
    var behindReach = NotificationList()
    /// Records that are not wholly admitted, in offset order; `noSlot`: none. Nothing is read meanwhile.
    var firstAdmitting = noSlot
    var lastAdmitting = noSlot

    init(
        id: PartitionID, topic: String, number: Int32, group: Int, tierDelayMs: Int64,
        ledger: consuming PartitionLedger,
        reach: Reach, metadataLimit: Int
    ) {
        self.id = id
        topicText = topic
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: topic.utf8.count, alignment: 1)
        bytes.copyBytes(from: topic.utf8)
        self.topic = UnsafeRawBufferPointer(bytes)
        topicHash = DerivedID.topicHash(UnsafeRawBufferPointer(bytes))
        self.number = number
        place = CrashPlace(
            topic: crash_topic(bytes.baseAddress, Int32(bytes.count)), topic_count: Int32(bytes.count),
            partition: number, offset: 0)
        self.group = group
        self.tierDelayMs = tierDelayMs
        flight = (tierDelayMs > 0 ? CommitGroup.retries : .requests).rawValue
        self.ledger = ledger
        self.reach = reach
        self.metadataLimit = metadataLimit
    }

    deinit { topic.deallocate() }

    /// Whether the last commit may be made.
    var mayLeave: Bool { phase == .leaving || phase == .draining && open == 0 }

    /// Whether a commit should not wait for the interval.
    var isUrgent: Bool {
        guard pending == nil, let base = ledger.committable else { return false }
        switch phase {
        case .active: return reach.isShort(from: base)
        case .draining, .leaving: return mayLeave
        case .left: return false
        }
    }

    /// Whether there is something to commit at all.
    var wantsCommit: Bool { pending == nil && ledger.committable != nil && (isDirty && phase != .left || isUrgent) }
}

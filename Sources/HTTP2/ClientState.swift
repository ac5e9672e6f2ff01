internal import CNghttp2

/// What a client session's callbacks read and write, at an address of its own, so that no Swift object is accessed.
@unsafe
struct ClientState {
    @unsafe
    struct Entry {
        var event: ClientSessionEvent
        /// The slot whose bytes the event lends.
        var slot: UnsafeMutablePointer<StreamSlot>?
    }

    /// A header of responses that can be kept; the name is a static string's.
    @safe
    struct Wanted: BitwiseCopyable {
        var name: UnsafePointer<UInt8>?
        var count = 0
    }

    let responseLimit: Int
    let wanted: [4 of Wanted]
    /// Bit n: some wanted name has n bytes (modulo 64).
    let wantedLengths: UInt64
    let memory = unsafe MemoryPool()
    var slots = unsafe SlotPool<StreamSlot>()
    var output = unsafe OutputBuffer()
    var sink = unsafe EventSink<Entry>()
    /// Streams answered before their body was out.
    var early = EventSink<Int32>()
    var isReady = false
    var isClosing = false
    var allowedStreams = 0
    var openStreams = 0
    var indexedNames: UInt8 = 0
    var credentialFrameMinimum = Int.max
    /// The peer's window for the whole connection when nothing is on its way: RFC 9113, 6.9.2, or what it raised it to.
    var wholeWindow = 65_535
    /// Where in the output the last END_STREAM ended.
    var lastEnd: Int64 = 0
    /// The slot whose bytes are lent, by the event taken last.
    var current: UnsafeMutablePointer<StreamSlot>?
    var goAwayData: [UInt8] = []
    var errorText: String?
    var frameHeads: [FrameHead] = []

    /// The stream looked up last, and its slot: callbacks of one frame come together.
    var foundStream: Int32 = 0
    var foundSlot: UnsafeMutablePointer<StreamSlot>?

    init(options: ClientSessionOptions) {
        unsafe responseLimit = options.responseLimit
        var wanted = [4 of Wanted](repeating: Wanted())
        var lengths: UInt64 = 0
        for (index, name) in options.wantedHeaders.enumerated() {
            wanted[index] = unsafe Wanted(name: name.utf8Start, count: name.utf8CodeUnitCount)
            lengths |= 1 << UInt64(name.utf8CodeUnitCount & 63)
        }
        unsafe self.wanted = wanted
        unsafe wantedLengths = lengths
    }

    func free() {
        unsafe memory.free()
        unsafe slots.free { unsafe $0.pointee.kept.free() }
        unsafe output.free()
    }

    /// Body bytes until the peer has taken a half of its window since it gave back last; `window` is what is left of
    /// it.
    ///
    /// A peer gives window back once a half of it was used, and looks when a DATA frame ends (nghttp2 does; updates of
    /// Apple's of 32,822 bytes say the same). A frame that crosses the half leaves less than the other half in the
    /// window: the peer then waits, and only one half goes round in a round trip. So frames end at the halves.
    func untilHalf(window: Int) -> Int {
        let half = unsafe wholeWindow / 2
        return unsafe half - (wholeWindow - window) % half
    }

    /// Ends the loan of the event taken last.
    mutating func releaseCurrent() {
        guard let slot = unsafe current else { return }
        unsafe current = nil
        unsafe slot.pointee.flags.remove(.eventPending)
        if unsafe slot.pointee.flags.contains(.closed) { unsafe giveBack(slot) }
    }

    mutating func giveBack(_ slot: UnsafeMutablePointer<StreamSlot>) {
        unsafe slot.pointee.reset()
        unsafe slots.give(slot)
    }

    func lent(_ range: (UnsafeMutablePointer<StreamSlot>) -> KeptRange) -> UnsafeRawBufferPointer {
        guard let slot = unsafe current else { return unsafe OutputBuffer.nothing }
        let place = unsafe range(slot)
        let end = Int(place.start + place.count)
        return unsafe UnsafeRawBufferPointer(rebasing: slot.pointee.kept.bytes[Int(place.start)..<end])
    }

    mutating func note(_ head: nghttp2_frame_hd, isSent: Bool) {
        unsafe frameHeads.append(
            FrameHead(
                isSent: isSent, type: head.type, flags: head.flags, stream: head.stream_id, length: head.length))
    }

    mutating func append(_ event: ClientSessionEvent) { unsafe sink.append(Entry(event: event)) }

    /// Appends a stream's last event.
    mutating func settle(_ slot: UnsafeMutablePointer<StreamSlot>, _ event: ClientSessionEvent) {
        unsafe slot.pointee.flags.formUnion([.settled, .eventPending])
        unsafe slot.pointee.body = nil
        unsafe sink.append(Entry(event: event, slot: slot))
    }
}

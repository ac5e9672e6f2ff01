internal import CNghttp2

/// The state that a client session's callbacks use. It has a fixed address, so that callbacks access no Swift object.
@unsafe
struct ClientState {
    @unsafe
    struct Entry {
        var event: ClientSessionEvent
        /// The slot whose bytes the event borrows.
        var slot: UnsafeMutablePointer<StreamSlot>?
    }

    /// A response header that a request can select for storing. The name is a static string.
    @safe
    struct Wanted: BitwiseCopyable {
        var name: UnsafePointer<UInt8>?
        var count = 0
    }

    let responseLimit: Int
    let wanted: [4 of Wanted]
    /// A bit mask of the lengths of wanted names: bit n is set for a name of n bytes (modulo 64).
    let wantedLengths: UInt64
    let memory = unsafe MemoryPool()
    var slots = unsafe SlotPool<StreamSlot>()
    var output = unsafe OutputBuffer()
    var sink = unsafe EventSink<Entry>()
    /// Streams that the peer answered before their body was sent completely.
    var early = EventSink<Int32>()
    var isReady = false
    var isClosing = false
    var allowedStreams = 0
    var openStreams = 0
    var indexedNames: UInt8 = 0
    var credentialFrameMinimum = Int.max
    /// The full size of the connection's flow-control window: 65,535 bytes (RFC 9113, 6.9.2), or more if the peer has
    /// raised it.
    var wholeWindow = 65_535
    /// The output position after the last END_STREAM.
    var lastEnd: Int64 = 0
    /// The slot whose bytes the current event borrows.
    var current: UnsafeMutablePointer<StreamSlot>?
    var goAwayData: [UInt8] = []
    var errorText: String?
    var frameHeads: [FrameHead] = []

    /// The stream of the last lookup, cached because consecutive callbacks usually concern the same stream.
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

    /// Returns the number of body bytes until the peer has received half of its window since its last WINDOW_UPDATE.
    /// `window` is the remaining window.
    ///
    /// A peer sends WINDOW_UPDATE once half of the window is used, and checks this at the end of a DATA frame (nghttp2
    /// does, and Apple's observed updates of 32,822 bytes suggest the same). A frame that crosses the half would leave
    /// less than half of the window, too little to trigger the next WINDOW_UPDATE. Only half of the window would then
    /// be used per round trip. Frames therefore end exactly at each half.
    func untilHalf(window: Int) -> Int {
        let half = unsafe wholeWindow / 2
        return unsafe half - (wholeWindow - window) % half
    }

    /// Releases the bytes borrowed by the current event.
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

internal import CNghttp2

/// What a client session's callbacks read and write, at an address of its own: while a C call runs, no Swift object is
/// being accessed that a callback could touch.
@unsafe
struct ClientState {
    struct Entry: BitwiseCopyable {
        var event: ClientSessionEvent
        /// The slot whose bytes the event lends; `.max`: none.
        var slot: UInt32
    }

    /// A header of responses that can be kept; the name is a static string's.
    @safe
    struct Wanted: BitwiseCopyable {
        var name: UnsafePointer<UInt8>?
        var count = 0
    }

    let streamLimit: Int
    let responseLimit: Int
    let wanted: [4 of Wanted]
    /// Bit n: some wanted name has n bytes (modulo 64).
    let wantedLengths: UInt64
    let memory = unsafe MemoryPool()
    var slab = unsafe StreamSlab()
    var output = unsafe OutputBuffer(capacity: 64 << 10)
    var sink = unsafe EventSink<Entry>()
    /// Streams answered before their body was out.
    var early = unsafe EventSink<Int32>()
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
    var currentSlot = UInt32.max
    var goAwayData: [UInt8] = []
    var errorText: String?
    /// Only with `ClientSessionOptions.tracesFrames`.
    var frameHeads: [FrameHead] = []

    /// The stream looked up last, and its slot: callbacks of one frame come together.
    var foundStream: Int32 = 0
    var foundSlot: UnsafeMutablePointer<StreamSlot>?

    init(options: ClientSessionOptions) {
        unsafe streamLimit = options.streamLimit
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
        unsafe slab.deallocate()
        unsafe output.free()
        unsafe sink.free()
        unsafe early.free()
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

    /// The event taken last is done with.
    mutating func releaseCurrent() {
        guard unsafe currentSlot != .max else { return }
        let slot = unsafe slab[currentSlot]
        unsafe currentSlot = .max
        unsafe slot.pointee.flags.remove(.eventPending)
        if unsafe slot.pointee.flags.contains(.closed) { unsafe slab.give(slot) }
    }

    func lent(_ range: (UnsafeMutablePointer<StreamSlot>) -> KeptRange) -> UnsafeRawBufferPointer {
        guard unsafe currentSlot != .max else { return unsafe UnsafeRawBufferPointer(start: nil, count: 0) }
        let slot = unsafe slab[currentSlot]
        let place = unsafe range(slot)
        guard place.count > 0, let kept = unsafe slot.pointee.kept else {
            return unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return unsafe UnsafeRawBufferPointer(start: kept + Int(place.start), count: Int(place.count))
    }

    mutating func note(_ head: nghttp2_frame_hd, isSent: Bool) {
        unsafe frameHeads.append(
            FrameHead(
                isSent: isSent, type: head.type, flags: head.flags, stream: head.stream_id, length: head.length))
    }

    /// Says a stream's last event.
    mutating func settle(_ slot: UnsafeMutablePointer<StreamSlot>, _ event: ClientSessionEvent) {
        unsafe slot.pointee.flags.formUnion([.settled, .eventPending])
        unsafe slot.pointee.body = nil
        unsafe sink.append(Entry(event: event, slot: slot.pointee.index))
    }
}

internal import CNghttp2
import Glibc

extension ClientSession {
    /// The state that a client session's callbacks use. It has a fixed address, so that callbacks access no Swift
    /// object.
    @unsafe
    struct State {
        @unsafe
        struct Entry {
            var event: Event
            /// The slot whose bytes the event borrows.
            var slot: UnsafeMutablePointer<StreamSlot>?
        }

        /// A response header that can be stored. The name is a static string.
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
        /// Streams answered before their body was sent.
        var early = EventSink<Int32>()
        var isReady = false
        var isClosing = false
        var allowedStreams = 0
        var openStreams = 0
        var indexedNames: UInt8 = 0
        var credentialFrameMinimum = Int.max
        /// The peer's full window for the connection (RFC 9113, 6.9.2), or a larger one if the peer raised it.
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

        init(options: Options) {
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

        /// Returns the number of body bytes until the peer has received half of its window since its last
        /// WINDOW_UPDATE. `window` is the remaining window.
        ///
        /// A peer sends WINDOW_UPDATE once half of the window is used, and checks this at the end of a DATA frame
        /// (nghttp2 does, and Apple's observed updates of 32,822 bytes suggest the same). A frame that crosses the half
        /// would leave less than the other half in the window. The peer would then wait, and only half of the window
        /// would be used per round trip. Frames therefore end at each half.
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

        mutating func append(_ event: Event) { unsafe sink.append(Entry(event: event)) }

        /// Appends a stream's last event.
        mutating func settle(_ slot: UnsafeMutablePointer<StreamSlot>, _ event: Event) {
            unsafe slot.pointee.flags.formUnion([.settled, .eventPending])
            unsafe slot.pointee.body = nil
            unsafe sink.append(Entry(event: event, slot: slot))
        }
    }

    /// The range of a value among a slot's stored bytes.
    struct KeptRange {
        var start: UInt32 = 0
        var count: UInt32 = 0
    }

    /// The state of one stream in a client session.
    @unsafe
    struct StreamSlot {
        struct Flags: OptionSet {
            let rawValue: UInt8
            /// The stream's last event is queued and borrows the slot's bytes.
            static let eventPending = Flags(rawValue: 1)
            static let closed = Flags(rawValue: 2)
            /// No further event follows: the stream was answered, cancelled, or never written.
            static let settled = Flags(rawValue: 4)
            static let endSent = Flags(rawValue: 8)
            /// `submit` has returned, so later progress of the body is reported by events.
            static let submitted = Flags(rawValue: 16)
            /// nghttp2 never wrote the HEADERS.
            static let notSent = Flags(rawValue: 32)
            /// Body bytes have arrived, so further headers are trailers.
            static let bodyBegan = Flags(rawValue: 64)
            /// HEADERS arrived after those with the final status.
            static let trailersBegan = Flags(rawValue: 128)
        }

        var user: UInt32 = 0
        var status: UInt16 = 0
        var flags: Flags = []
        /// A bit mask: bit n stores the session's n-th wanted header.
        var keep: UInt8 = 0
        var body: UnsafePointer<UInt8>?
        var bodyLeft = 0
        /// The stored headers and body of the response.
        var kept = unsafe OutputBuffer()
        var headers: [4 of KeptRange] = .init(repeating: KeptRange())
        var responseBody = KeptRange()

        /// Appends a copy of `bytes` to the stored bytes, up to `limit`.
        mutating func keepBytes(_ bytes: UnsafePointer<UInt8>, _ count: Int, limit: Int) -> KeptRange {
            let start = unsafe kept.count
            let taken = max(0, min(count, limit - start))
            unsafe kept.append(UnsafeRawBufferPointer(start: bytes, count: taken))
            return KeptRange(start: UInt32(start), count: UInt32(taken))
        }

        var hasResponse: Bool { unsafe status != 0 || kept.count != 0 || flags.contains(.bodyBegan) }

        /// Discards the response so far, which was an interim one (1xx).
        mutating func forgetResponse() {
            unsafe status = 0
            unsafe flags.remove(.bodyBegan)
            unsafe kept.removeAll()
            for index in 0..<4 { unsafe headers[index] = KeptRange() }
            unsafe responseBody = KeptRange()
        }

        mutating func reset() {
            unsafe forgetResponse()
            unsafe flags = []
            unsafe body = nil
            unsafe bodyLeft = 0
        }
    }
}

import Glibc

/// The range of a header's value or of the body in a slot's stored bytes.
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
        /// Another HEADERS frame has begun after the one with the final status.
        static let trailersBegan = Flags(rawValue: 128)
    }

    var user: UInt32 = 0
    var status: UInt16 = 0
    var flags: Flags = []
    /// A bit mask. If bit n is set, the response header `wantedHeaders[n]` is stored.
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

/// Slots at fixed addresses, so that nghttp2 can store pointers to them. The most recently released slot is reused
/// first.
@unsafe
struct SlotPool<Slot> {
    private(set) var all: [UnsafeMutablePointer<Slot>] = unsafe []
    private var idle: [UnsafeMutablePointer<Slot>] = unsafe []

    mutating func take(_ make: @autoclosure () -> Slot) -> UnsafeMutablePointer<Slot> {
        if let slot = unsafe idle.popLast() { return unsafe slot }
        let slot = UnsafeMutablePointer<Slot>.allocate(capacity: 1)
        unsafe slot.initialize(to: make())
        unsafe all.append(slot)
        return unsafe slot
    }

    mutating func give(_ slot: UnsafeMutablePointer<Slot>) { unsafe idle.append(slot) }

    func free(_ freeContents: (UnsafeMutablePointer<Slot>) -> Void) {
        for index in unsafe all.indices {
            let slot = unsafe all[index]
            unsafe freeContents(slot)
            unsafe slot.deinitialize(count: 1)
            unsafe slot.deallocate()
        }
    }
}

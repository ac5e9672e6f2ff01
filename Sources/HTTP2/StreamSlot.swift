import Glibc

/// A value among a slot's kept bytes.
struct KeptRange {
    var start: UInt32 = 0
    var count: UInt32 = 0
}

/// What a client session keeps of one stream. Lives in a slab, so that nghttp2 can carry its address.
@unsafe
struct StreamSlot {
    struct Flags: OptionSet {
        let rawValue: UInt8
        /// Its last event waits in the sink: the bytes must stay.
        static let eventPending = Flags(rawValue: 1)
        /// nghttp2 closed the stream.
        static let closed = Flags(rawValue: 2)
        /// Nobody waits for an event any more: answered, cancelled, or never written.
        static let settled = Flags(rawValue: 4)
        /// END_STREAM is in the output.
        static let endSent = Flags(rawValue: 8)
        /// `submit` returned, so that later news about its body are events.
        static let submitted = Flags(rawValue: 16)
        /// nghttp2 never wrote its HEADERS.
        static let notSent = Flags(rawValue: 32)
        /// Body bytes have arrived: what follows are trailers.
        static let bodyBegan = Flags(rawValue: 64)
        /// HEADERS came after those with the final status.
        static let trailersBegan = Flags(rawValue: 128)
    }

    var user: UInt32 = 0
    var streamID: Int32 = 0
    let index: UInt32
    var nextFree: UInt32 = .max
    var status: UInt16 = 0
    var flags: Flags = []
    /// Bit n: keep the session's n-th wanted header.
    var keep: UInt8 = 0
    /// What is left of the lent request body.
    var body: UnsafePointer<UInt8>?
    var bodyLeft: Int = 0
    var kept: UnsafeMutablePointer<UInt8>?
    var keptCapacity: UInt32 = 0
    var keptCount: UInt32 = 0
    var headers: [4 of KeptRange] = .init(repeating: KeptRange())
    var responseBody = KeptRange()

    init(index: UInt32) { unsafe self.index = index }

    /// Copies `bytes` behind what is kept, as far as `limit` allows.
    mutating func keepBytes(_ bytes: UnsafePointer<UInt8>, _ count: Int, limit: Int) -> KeptRange {
        let taken = unsafe UInt32(max(0, min(count, limit - Int(keptCount))))
        if unsafe keptCount + taken > keptCapacity { unsafe growKept(to: keptCount + taken) }
        if taken > 0 { unsafe memcpy(kept! + Int(keptCount), bytes, Int(taken)) }
        defer { unsafe keptCount += taken }
        return unsafe KeptRange(start: keptCount, count: taken)
    }

    private mutating func growKept(to needed: UInt32) {
        var capacity = unsafe max(128, keptCapacity)
        while capacity < needed { capacity *= 2 }
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: Int(capacity))
        if let old = unsafe kept {
            unsafe memcpy(larger, old, Int(keptCount))
            unsafe old.deallocate()
        }
        unsafe kept = unsafe larger
        unsafe keptCapacity = capacity
    }

    /// Something of a response was seen.
    var hasResponse: Bool { unsafe status != 0 || keptCount != 0 || flags.contains(.bodyBegan) }

    /// What an interim response (1xx) said, its body too: all ranges lie within what is kept.
    mutating func forgetInterim() {
        unsafe status = 0
        unsafe flags.remove(.bodyBegan)
        unsafe keptCount = 0
        for index in 0..<4 { unsafe headers[index] = KeptRange() }
        unsafe responseBody = KeptRange()
    }

    mutating func reset() {
        unsafe streamID = 0
        unsafe status = 0
        unsafe flags = []
        unsafe body = nil
        unsafe bodyLeft = 0
        unsafe keptCount = 0
        for index in 0..<4 { unsafe headers[index] = KeptRange() }
        unsafe responseBody = KeptRange()
    }
}

private let slabBlock = 128

/// Slots at addresses that never change, in blocks; freed slots are taken again first, warm.
@unsafe
struct StreamSlab {
    private var blocks: [UnsafeMutablePointer<StreamSlot>] = unsafe []
    private var free: UInt32 = .max

    subscript(index: UInt32) -> UnsafeMutablePointer<StreamSlot> {
        unsafe blocks[Int(index) / slabBlock] + Int(index) % slabBlock
    }

    mutating func take() -> UnsafeMutablePointer<StreamSlot> {
        if unsafe free == .max { unsafe addBlock() }
        let slot = unsafe self[free]
        unsafe free = slot.pointee.nextFree
        return unsafe slot
    }

    mutating func give(_ slot: UnsafeMutablePointer<StreamSlot>) {
        unsafe slot.pointee.reset()
        unsafe slot.pointee.nextFree = free
        unsafe free = slot.pointee.index
    }

    private mutating func addBlock() {
        let block = UnsafeMutablePointer<StreamSlot>.allocate(capacity: slabBlock)
        let first = unsafe blocks.count * slabBlock
        for offset in (0..<slabBlock).reversed() {
            unsafe (block + offset).initialize(to: StreamSlot(index: UInt32(first + offset)))
            unsafe block[offset].nextFree = free
            unsafe free = UInt32(first + offset)
        }
        unsafe blocks.append(block)
    }

    func deallocate() {
        for index in unsafe blocks.indices {
            let block = unsafe blocks[index]
            for offset in 0..<slabBlock { unsafe block[offset].kept?.deallocate() }
            unsafe block.deallocate()
        }
    }
}

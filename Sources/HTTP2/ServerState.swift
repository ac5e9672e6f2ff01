import Glibc

/// Where a header is among a request's bytes: name, then value.
struct HeaderSpan {
    var start: UInt32
    var nameCount: UInt32
    var valueCount: UInt32
}

/// One stream of a server session: the request's bytes, then the response's body.
@unsafe
struct RequestSlot {
    var streamID: Int32 = 0
    var isAnswered = false
    var isClosed = false
    /// Events in the sink that lend this slot's bytes.
    var pendingEvents = 0
    var wasCut = false
    var isEnd = true
    /// Body bytes taken in while stalled, not given back to the stream's window yet.
    var unconsumed = 0

    var bytes: UnsafeMutablePointer<UInt8>?
    private var capacity: UInt32 = 0
    var count: UInt32 = 0
    /// Where the body begins.
    var headersEnd: UInt32 = 0
    var bodyLength = 0
    private(set) var headers: UnsafeMutablePointer<HeaderSpan>
    private(set) var headerCount = 0

    var response: UnsafeMutablePointer<UInt8>?
    private var responseCapacity = 0
    var responseCount = 0
    var responseSent = 0

    init() { unsafe headers = .allocate(capacity: 64) }

    func free() {
        unsafe bytes?.deallocate()
        unsafe response?.deallocate()
        unsafe headers.deallocate()
    }

    mutating func reset(stream: Int32) {
        unsafe streamID = stream
        unsafe isAnswered = false
        unsafe isClosed = false
        unsafe pendingEvents = 0
        unsafe wasCut = false
        unsafe count = 0
        unsafe headersEnd = 0
        unsafe bodyLength = 0
        unsafe headerCount = 0
        unsafe responseCount = 0
        unsafe responseSent = 0
        unsafe unconsumed = 0
    }

    /// At most 64 headers; more are dropped, and `wasCut` says so.
    mutating func addHeader(
        _ name: UnsafePointer<UInt8>, _ nameCount: Int, _ value: UnsafePointer<UInt8>, _ valueCount: Int, limit: Int
    ) {
        guard unsafe headerCount < 64, unsafe Int(count) + nameCount + valueCount <= limit else {
            unsafe wasCut = true
            return
        }
        let start = unsafe count
        unsafe append(name, nameCount)
        unsafe append(value, valueCount)
        let span = HeaderSpan(start: start, nameCount: UInt32(nameCount), valueCount: UInt32(valueCount))
        unsafe (headers + headerCount).initialize(to: span)
        unsafe headerCount += 1
        unsafe headersEnd = count
    }

    mutating func addBody(_ body: UnsafePointer<UInt8>, _ size: Int, limit: Int) {
        unsafe bodyLength += size
        let taken = unsafe max(0, min(size, limit - Int(count)))
        if taken < size { unsafe wasCut = true }
        unsafe append(body, taken)
    }

    mutating func setResponse(_ body: UnsafeRawBufferPointer, isEnd: Bool) {
        unsafe self.isEnd = isEnd
        if unsafe responseCapacity < body.count {
            unsafe response?.deallocate()
            unsafe response = .allocate(capacity: max(256, body.count))
            unsafe responseCapacity = max(256, body.count)
        }
        if let base = body.baseAddress { unsafe memcpy(response!, base, body.count) }
        unsafe responseCount = body.count
        unsafe responseSent = 0
    }

    private mutating func append(_ source: UnsafePointer<UInt8>, _ size: Int) {
        guard size > 0 else { return }
        let needed = unsafe count + UInt32(size)
        if unsafe needed > capacity {
            var larger = unsafe max(512, capacity)
            while larger < needed { larger *= 2 }
            let grown = UnsafeMutablePointer<UInt8>.allocate(capacity: Int(larger))
            if let old = unsafe bytes {
                unsafe memcpy(grown, old, Int(count))
                unsafe old.deallocate()
            }
            unsafe bytes = unsafe grown
            unsafe capacity = larger
        }
        unsafe memcpy(bytes! + Int(count), source, size)
        unsafe count = needed
    }
}

/// What a server session's callbacks read and write, at an address of its own.
@unsafe
struct ServerState {
    @unsafe
    struct Entry: BitwiseCopyable {
        var event: ServerEvent
        /// The slot whose bytes the event lends.
        var slot: UnsafeMutablePointer<RequestSlot>?
    }

    let options: ServerSessionOptions
    let memory = unsafe MemoryPool()
    var output = unsafe OutputBuffer(capacity: 64 << 10)
    var sink = unsafe EventSink<Entry>()
    private var all: [UnsafeMutablePointer<RequestSlot>] = unsafe []
    private var idle: [UnsafeMutablePointer<RequestSlot>] = unsafe []
    var current: UnsafeMutablePointer<RequestSlot>?
    var indexedNames: UInt8 = 0
    var isStalled = false
    /// Body bytes taken in while stalled, not given back to the connection's window yet.
    var unconsumed = 0
    var errorText: String?

    init(options: ServerSessionOptions) { unsafe self.options = options }

    func free() {
        unsafe memory.free()
        unsafe output.free()
        unsafe sink.free()
        for index in unsafe all.indices {
            let slot = unsafe all[index]
            unsafe slot.pointee.free()
            unsafe slot.deallocate()
        }
    }

    mutating func take(stream: Int32) -> UnsafeMutablePointer<RequestSlot> {
        let slot: UnsafeMutablePointer<RequestSlot>
        if let known = unsafe idle.popLast() {
            unsafe slot = unsafe known
        } else {
            unsafe slot = .allocate(capacity: 1)
            unsafe slot.initialize(to: RequestSlot())
            unsafe all.append(slot)
        }
        unsafe slot.pointee.reset(stream: stream)
        return unsafe slot
    }

    mutating func say(_ event: ServerEvent, _ slot: UnsafeMutablePointer<RequestSlot>? = nil) {
        unsafe slot?.pointee.pendingEvents += 1
        unsafe sink.append(Entry(event: event, slot: slot))
    }

    /// The event taken last is done with.
    mutating func releaseCurrent() {
        guard let slot = unsafe current else { return }
        unsafe current = nil
        unsafe slot.pointee.pendingEvents -= 1
        unsafe giveBackIfDone(slot)
    }

    /// Streams whose window is owed bytes; they are owed nothing afterwards.
    func forEachOwing(_ body: (Int32, Int) -> Void) {
        for index in unsafe all.indices {
            let slot = unsafe all[index]
            guard unsafe slot.pointee.unconsumed > 0, unsafe !slot.pointee.isClosed else { continue }
            unsafe body(slot.pointee.streamID, slot.pointee.unconsumed)
            unsafe slot.pointee.unconsumed = 0
        }
    }

    mutating func giveBackIfDone(_ slot: UnsafeMutablePointer<RequestSlot>) {
        if unsafe slot.pointee.isClosed && slot.pointee.pendingEvents == 0 { unsafe idle.append(slot) }
    }
}

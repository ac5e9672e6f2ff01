extension ServerSession {
    /// The position of a header in a request's bytes: the name, then the value.
    struct HeaderSpan {
        var start: Int
        var nameCount: Int
        var valueCount: Int
    }

    /// The state of one stream in a server session, with the request's bytes and then the response's body.
    @unsafe
    struct RequestSlot {
        var streamID: Int32 = 0
        var isAnswered = false
        var isClosed = false
        /// The number of queued events that borrow this slot's bytes.
        var pendingEvents = 0
        var isEnd = true
        /// The number of body bytes received while stalled, for which the stream's window was not updated yet.
        var unconsumed = 0

        var bytes = unsafe OutputBuffer()
        var headersEnd = 0
        var bodyLength = 0
        private(set) var headers: [HeaderSpan] = []
        var response = unsafe OutputBuffer()

        func free() {
            unsafe bytes.free()
            unsafe response.free()
        }

        /// Stores a request header, unless 64 are stored already or the header does not fit.
        mutating func addHeader(
            _ name: UnsafePointer<UInt8>, _ nameCount: Int, _ value: UnsafePointer<UInt8>, _ valueCount: Int, limit: Int
        ) {
            guard unsafe headers.count < 64, unsafe bytes.count + nameCount + valueCount <= limit else { return }
            unsafe headers.append(HeaderSpan(start: bytes.count, nameCount: nameCount, valueCount: valueCount))
            unsafe bytes.append(UnsafeRawBufferPointer(start: name, count: nameCount))
            unsafe bytes.append(UnsafeRawBufferPointer(start: value, count: valueCount))
            unsafe headersEnd = bytes.count
        }

        mutating func addBody(_ body: UnsafePointer<UInt8>, _ size: Int, limit: Int) {
            unsafe bodyLength += size
            unsafe bytes.append(UnsafeRawBufferPointer(start: body, count: min(size, limit - bytes.count)))
        }
    }

    /// The state that a server session's callbacks use. It has a fixed address.
    @unsafe
    struct State {
        @unsafe
        struct Entry {
            var event: Event
            /// The slot whose bytes the event borrows.
            var slot: UnsafeMutablePointer<RequestSlot>?
        }

        let options: Options
        var output = unsafe OutputBuffer()
        var sink = unsafe EventSink<Entry>()
        var slots = unsafe SlotPool<RequestSlot>()
        /// The slot whose bytes the current event borrows.
        var current: UnsafeMutablePointer<RequestSlot>?
        var indexedNames: UInt8 = 0
        var isStalled = false
        /// The number of body bytes received while stalled, for which the connection's window was not updated yet.
        var unconsumed = 0
        var errorText: String?

        init(options: Options) { unsafe self.options = options }

        func free() {
            unsafe output.free()
            unsafe slots.free { unsafe $0.pointee.free() }
        }

        mutating func append(_ event: Event, _ slot: UnsafeMutablePointer<RequestSlot>? = nil) {
            unsafe slot?.pointee.pendingEvents += 1
            unsafe sink.append(Entry(event: event, slot: slot))
        }

        /// Releases the bytes borrowed by the current event.
        mutating func releaseCurrent() {
            guard let slot = unsafe current else { return }
            unsafe current = nil
            unsafe slot.pointee.pendingEvents -= 1
            unsafe giveBackIfDone(slot)
        }

        mutating func giveBackIfDone(_ slot: UnsafeMutablePointer<RequestSlot>) {
            guard unsafe slot.pointee.isClosed && slot.pointee.pendingEvents == 0 else { return }
            unsafe slot.pointee.free()
            unsafe slot.pointee = unsafe RequestSlot()
            unsafe slots.give(slot)
        }
    }
}

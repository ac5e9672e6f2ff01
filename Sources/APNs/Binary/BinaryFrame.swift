internal import PushRecords

/// Encodes notifications as frames of the binary provider protocol (big-endian) into one reused buffer.
///
/// Source: Apple, "Local and Push Notification Programming Guide", legacy information.
struct BinaryFrames: ~Copyable {
    /// The fields of one notification. Their bytes are borrowed.
    struct Fields {
        var token: UnsafeRawBufferPointer
        var payload: UnsafeRawBufferPointer
        var identifier: UInt32
        /// Seconds since the epoch. 0 means that the gateway tries once and does not store the notification.
        var expiry: UInt32
        var priority: UInt8

        /// Returns a notification for a device token of zeros, which a gateway must reject with an error.
        static func fence(identifier: UInt32) -> Fields {
            Fields(
                token: fenceToken.lentBytes, payload: fencePayload.lentBytes, identifier: identifier, expiry: 0,
                priority: 10)
        }
    }

    private static let fenceToken = StaticString("0000000000000000000000000000000000000000000000000000000000000000")
    private static let fencePayload = StaticString(#"{"aps":{}}"#)

    private var memory: UnsafeMutableRawBufferPointer
    private var head = 0
    private var tail = 0

    /// The maximum number of bytes that a format adds to the token and the payload.
    private static let overhead = 64

    init() { memory = .allocate(byteCount: 64 << 10, alignment: 1) }

    deinit { memory.deallocate() }

    /// The bytes to send, valid until the next mutating call.
    var output: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[head..<tail]) }

    /// Drops the first `count` bytes of `output` after they were sent.
    mutating func consume(_ count: Int) {
        head += count
        if head == tail {
            head = 0
            tail = 0
        }
    }

    /// Appends a notification and returns the size of its frame.
    mutating func append(_ fields: Fields, _ format: BinaryConfiguration.Format) -> Int {
        let before = tail - head
        makeRoom(fields.token.count / 2 + fields.payload.count + Self.overhead)
        switch format {
        case .simple: put(UInt8(0))
        case .enhanced:
            put(UInt8(1))
            put(fields.identifier)
            put(fields.expiry)
        case .framed:
            put(UInt8(2))
            let items = fields.token.count / 2 + fields.payload.count + 4 + 4 + 1
            put(UInt32(5 * 3 + items))
            put(UInt8(1))
        }
        put(UInt16(fields.token.count / 2))
        putHex(fields.token)
        if format == .framed { put(UInt8(2)) }
        put(UInt16(fields.payload.count))
        put(fields.payload)
        if format == .framed {
            put(UInt8(3))
            put(UInt16(4))
            put(fields.identifier)
            put(UInt8(4))
            put(UInt16(4))
            put(fields.expiry)
            put(UInt8(5))
            put(UInt16(1))
            put(fields.priority)
        }
        return tail - head - before
    }

    private mutating func makeRoom(_ count: Int) {
        guard memory.count - tail < count else { return }
        let waiting = tail - head
        if memory.count - waiting >= count {
            UnsafeMutableRawBufferPointer(rebasing: memory[..<waiting]).copyMemory(from: output)
        } else {
            let larger = UnsafeMutableRawBufferPointer.allocate(
                byteCount: max(memory.count * 2, waiting + count), alignment: 1)
            larger.copyMemory(from: output)
            memory.deallocate()
            memory = larger
        }
        head = 0
        tail = waiting
    }

    private mutating func put(_ number: some FixedWidthInteger) {
        memory.storeBytes(of: number.bigEndian, toByteOffset: tail, as: type(of: number))
        tail += number.bitWidth / 8
    }

    private mutating func put(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: memory[tail..<(tail + bytes.count)]).copyMemory(from: bytes)
        tail += bytes.count
    }

    /// Appends the bytes of an even number of valid hex digits. Converting eight digits at a time saves 400
    /// instructions a frame, compared to one byte at a time.
    private mutating func putHex(_ digits: UnsafeRawBufferPointer) {
        var place = 0
        while place + 8 <= digits.count {
            let word = UInt64(littleEndian: digits.loadUnaligned(fromByteOffset: place, as: UInt64.self))
            memory.storeBytes(of: Self.bytes(word).littleEndian, toByteOffset: tail, as: UInt32.self)
            tail += 4
            place += 8
        }
        while place < digits.count {
            let pair = UInt64(digits[place]) | UInt64(digits[place + 1]) << 8
            memory[tail] = UInt8(truncatingIfNeeded: Self.bytes(pair))
            tail += 1
            place += 2
        }
    }

    /// Converts eight hex digits to four bytes. The lowest byte of `digits` is the first digit. A digit's value is the
    /// low half of its ASCII code, plus 9 for a letter.
    @inline(__always)
    private static func bytes(_ digits: UInt64) -> UInt32 {
        let halves = (digits & 0x0F0F_0F0F_0F0F_0F0F) &+ ((digits >> 6) & 0x0101_0101_0101_0101) &* 9
        var bytes = (halves << 4 | halves >> 8) & 0x00FF_00FF_00FF_00FF
        bytes = (bytes | bytes >> 8) & 0x0000_FFFF_0000_FFFF
        return UInt32(truncatingIfNeeded: bytes | bytes >> 16)
    }
}

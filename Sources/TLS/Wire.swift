internal import COpenSSL
internal import Glibc

/// The far side of an `SSL`: ciphertext lent to it and ciphertext it made, as the memory that a BIO of our own reads
/// and writes. (OpenSSL's memory BIO copies once more and moves its contents.)
@safe struct Wire {
    private var input: UnsafePointer<UInt8>?
    private var inputCount = 0

    private var output: UnsafeMutableRawPointer
    private var outputCapacity: Int
    private var outputStart = 0
    private var outputEnd = 0
    private let outputLimit: Int

    init(outputLimit: Int) {
        self.outputLimit = outputLimit
        outputCapacity = min(outputLimit, 4096)
        unsafe output = .allocate(byteCount: outputCapacity, alignment: 16)
    }

    func deallocate() { unsafe output.deallocate() }

    // MARK: The session's side

    var unreadCount: Int { inputCount }

    mutating func lend(_ ciphertext: UnsafeRawBufferPointer) {
        precondition(inputCount == 0, "the ciphertext lent before was not used up")
        unsafe input = ciphertext.baseAddress?.assumingMemoryBound(to: UInt8.self)
        inputCount = ciphertext.count
    }

    mutating func dropInput() { inputCount = 0 }

    var pendingOutput: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: output + outputStart, count: outputEnd - outputStart)
    }

    mutating func consumeOutput(_ count: Int) {
        precondition(count <= outputEnd - outputStart, "more was consumed than is pending")
        outputStart += count
        if outputStart == outputEnd {
            outputStart = 0
            outputEnd = 0
        }
    }

    // MARK: OpenSSL's side

    mutating func take(_ destination: UnsafeMutableRawPointer, _ count: Int) -> Int {
        let taken = min(count, inputCount)
        guard taken > 0 else { return 0 }
        unsafe memcpy(destination, input!, taken)
        unsafe input = input! + taken
        inputCount -= taken
        return taken
    }

    /// False: more is pending than may be.
    mutating func append(_ bytes: UnsafeRawPointer, _ count: Int) -> Bool {
        if outputEnd + count > outputCapacity {
            guard makeRoom(count) else { return false }
        }
        unsafe memcpy(output + outputEnd, bytes, count)
        outputEnd += count
        return true
    }

    private mutating func makeRoom(_ count: Int) -> Bool {
        let pending = outputEnd - outputStart
        guard pending + count <= outputLimit else { return false }
        if pending + count <= outputCapacity / 2 {
            unsafe memmove(output, output + outputStart, pending)
        } else {
            outputCapacity = min(outputLimit, max(outputCapacity * 2, pending + count))
            let grown = UnsafeMutableRawPointer.allocate(byteCount: outputCapacity, alignment: 16)
            unsafe memcpy(grown, output + outputStart, pending)
            unsafe output.deallocate()
            unsafe output = grown
        }
        outputStart = 0
        outputEnd = pending
        return true
    }
}

/// The BIO over a `Wire`; its data is the wire's address.
enum WireBIO {
    static func make(_ wire: UnsafeMutablePointer<Wire>) -> OpaquePointer? {
        guard let method = unsafe method, let bio = unsafe BIO_new(method) else { return nil }
        unsafe BIO_set_data(bio, wire)
        unsafe BIO_set_init(bio, 1)
        return unsafe bio
    }

    /// BIO_meth_new(3). Its functions are called by OpenSSL inside SSL_read, SSL_write and SSL_do_handshake.
    nonisolated(unsafe) private static let method: OpaquePointer? = {
        guard let method = unsafe BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wire") else { return nil }
        unsafe BIO_meth_set_read_ex(method) { bio, bytes, count, done in unsafe read(bio, bytes, count, done) }
        unsafe BIO_meth_set_write_ex(method) { bio, bytes, count, done in unsafe write(bio, bytes, count, done) }
        unsafe BIO_meth_set_ctrl(method) { bio, command, _, _ in unsafe control(bio, command) }
        return unsafe method
    }()

    private static func wire(_ bio: OpaquePointer?) -> UnsafeMutablePointer<Wire> {
        unsafe BIO_get_data(bio).assumingMemoryBound(to: Wire.self)
    }

    private static func read(
        _ bio: OpaquePointer?, _ bytes: UnsafeMutablePointer<CChar>?, _ count: Int, _ done: UnsafeMutablePointer<Int>?
    ) -> Int32 {
        unsafe openssl_bio_clear_retry(bio)
        let wire = unsafe wire(bio)
        unsafe done!.pointee = unsafe wire.pointee.take(bytes!, count)
        if unsafe done!.pointee > 0 { return 1 }
        unsafe openssl_bio_retry_read(bio)
        return 0
    }

    private static func write(
        _ bio: OpaquePointer?, _ bytes: UnsafePointer<CChar>?, _ count: Int, _ done: UnsafeMutablePointer<Int>?
    ) -> Int32 {
        unsafe openssl_bio_clear_retry(bio)
        guard unsafe wire(bio).pointee.append(bytes!, count) else { return 0 }
        unsafe done!.pointee = count
        return 1
    }

    private static func control(_ bio: OpaquePointer?, _ command: Int32) -> Int {
        switch command {
        case BIO_CTRL_FLUSH: 1
        // Among them BIO_CTRL_EOF: where the stream ends, the channel does, and the session is asked no more.
        default: 0
        }
    }
}

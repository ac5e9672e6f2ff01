internal import Glibc
internal import TLS

/// A channel's output: plaintext gathered to whole TLS records, and how much of it the kernel has.
@safe struct RecordOutput: ~Copyable {
    private let limit: Int
    private(set) var sentBytes: Int64 = 0
    /// Ciphertext the kernel did not take yet.
    private(set) var pending = 0

    /// Plaintext not encrypted yet, less than one record.
    private let gathering: UnsafeMutableRawBufferPointer
    private var gathered = 0
    /// Plaintext of which the kernel has every record.
    private(set) var writtenBytes: Int64 = 0
    /// Ciphertext that the kernel took, in all.
    private var ciphertextWritten: Int64 = 0
    /// The ends of plaintext and ciphertext of each encryption whose ciphertext is not written yet.
    private var marks: [(plaintextEnd: Int64, ciphertextEnd: Int64)] = []

    init(limit: Int) {
        precondition(limit >= 2 * SecureChannel.recordLimit, "a channel's output limit is at least 32 KiB")
        self.limit = limit
        unsafe gathering = .allocate(byteCount: SecureChannel.recordLimit, alignment: 64)
    }

    deinit { unsafe gathering.deallocate() }

    var room: Int { max(0, limit - gathered - pending) }
    func fits(_ count: Int) -> Bool { gathered + count < SecureChannel.recordLimit }

    mutating func gather(_ bytes: UnsafeRawPointer, _ count: Int) {
        unsafe memcpy(gathering.baseAddress! + gathered, bytes, count)
        gathered += count
        sentBytes += Int64(count)
    }

    /// Takes what one record holds from `position` on; a full one is encrypted, without a copy when it can be.
    mutating func takeRecord(
        of bytes: UnsafeRawBufferPointer, from position: inout Int, into session: Session
    ) throws(TLSError) {
        let count = min(SecureChannel.recordLimit - gathered, bytes.count - position)
        let part = unsafe UnsafeRawBufferPointer(rebasing: bytes[position..<position + count])
        position += count
        if count == SecureChannel.recordLimit {
            sentBytes += Int64(count)
            try unsafe encrypt(part, session)
        } else {
            unsafe gather(part.baseAddress!, count)
            if gathered == SecureChannel.recordLimit { try encryptGathered(session) }
        }
    }

    mutating func encryptGathered(_ session: Session) throws(TLSError) {
        guard gathered > 0 else { return }
        let plaintext = unsafe UnsafeRawBufferPointer(rebasing: gathering[..<gathered])
        gathered = 0
        try unsafe encrypt(plaintext, session)
    }

    /// The last of `sentBytes`.
    private mutating func encrypt(_ plaintext: UnsafeRawBufferPointer, _ session: Session) throws(TLSError) {
        try unsafe session.write(plaintext)
        pending = unsafe session.pendingOutput.count
        marks.append((sentBytes, ciphertextWritten + Int64(pending)))
    }

    /// What the session has to write now: its own messages, too.
    mutating func pendingOutput(_ session: Session) -> UnsafeRawBufferPointer {
        let output = unsafe session.pendingOutput
        pending = output.count
        return unsafe output
    }

    /// The kernel took the first bytes of the pending output.
    mutating func wrote(_ count: Int, _ session: Session) {
        session.consumeOutput(count)
        pending -= count
        ciphertextWritten += Int64(count)
        while let mark = marks.first, mark.ciphertextEnd <= ciphertextWritten {
            writtenBytes = mark.plaintextEnd
            marks.removeFirst()
        }
    }

    /// Drops unsent bytes. The counts stay.
    mutating func drop() {
        gathered = 0
        pending = 0
    }
}

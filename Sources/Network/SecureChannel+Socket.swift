internal import Glibc
internal import TLS

extension SecureChannel {
    /// A channel's output. It collects plaintext into whole TLS records, and tracks how much of it the kernel has
    /// accepted.
    @safe struct Output: ~Copyable {
        private let limit: Int
        private(set) var sentBytes: Int64 = 0
        /// The number of ciphertext bytes not yet written to the kernel.
        private(set) var pending = 0

        /// Plaintext not yet encrypted, less than one record.
        private let gathering: UnsafeMutableRawBufferPointer
        private var gathered = 0
        /// The number of plaintext bytes whose records the kernel has accepted completely.
        private(set) var writtenBytes: Int64 = 0
        /// The total number of ciphertext bytes written.
        private var ciphertextWritten: Int64 = 0
        /// One entry for each encrypted block that is not completely written: the positions at which its plaintext and
        /// its ciphertext end.
        private var marks: [(plaintextEnd: Int64, ciphertextEnd: Int64)] = []

        init(limit: Int) {
            precondition(limit >= 2 * recordLimit, "a channel's output limit must be at least 32 KiB")
            self.limit = limit
            unsafe gathering = .allocate(byteCount: recordLimit, alignment: 64)
        }

        deinit { unsafe gathering.deallocate() }

        var room: Int { max(0, limit - gathered - pending) }
        func fits(_ count: Int) -> Bool { gathered + count < recordLimit }

        mutating func gather(_ bytes: UnsafeRawPointer, _ count: Int) {
            unsafe memcpy(gathering.baseAddress! + gathered, bytes, count)
            gathered += count
            sentBytes += Int64(count)
        }

        /// Collects plaintext for up to one TLS record from `position` on, and advances `position`. Encrypts a full
        /// record, without a copy if possible.
        mutating func takeRecord(
            of bytes: UnsafeRawBufferPointer, from position: inout Int, into session: Session
        ) throws(TLSError) {
            let count = min(recordLimit - gathered, bytes.count - position)
            let part = unsafe UnsafeRawBufferPointer(rebasing: bytes[position..<position + count])
            position += count
            if count == recordLimit {
                sentBytes += Int64(count)
                try unsafe encrypt(part, session)
            } else {
                unsafe gather(part.baseAddress!, count)
                if gathered == recordLimit { try encryptGathered(session) }
            }
        }

        mutating func encryptGathered(_ session: Session) throws(TLSError) {
            guard gathered > 0 else { return }
            let plaintext = unsafe UnsafeRawBufferPointer(rebasing: gathering[..<gathered])
            gathered = 0
            try unsafe encrypt(plaintext, session)
        }

        /// Encrypts `plaintext`, which ends at the position `sentBytes` of the channel's output.
        private mutating func encrypt(_ plaintext: UnsafeRawBufferPointer, _ session: Session) throws(TLSError) {
            try unsafe session.write(plaintext)
            pending = unsafe session.pendingOutput.count
            marks.append((sentBytes, ciphertextWritten + Int64(pending)))
        }

        /// Returns the ciphertext to write, including messages of TLS itself, such as alerts and key updates.
        mutating func pendingOutput(_ session: Session) -> UnsafeRawBufferPointer {
            let output = unsafe session.pendingOutput
            pending = output.count
            return unsafe output
        }

        /// Removes the first `count` bytes of the pending output, which the kernel has accepted.
        mutating func wrote(_ count: Int, _ session: Session) {
            session.consumeOutput(count)
            pending -= count
            ciphertextWritten += Int64(count)
            while let mark = marks.first, mark.ciphertextEnd <= ciphertextWritten {
                writtenBytes = mark.plaintextEnd
                marks.removeFirst()
            }
        }

        /// Discards unsent bytes. `sentBytes` and `writtenBytes` do not change.
        mutating func drop() {
            gathered = 0
            pending = 0
        }
    }
}

// Non-blocking reads and writes of a socket.
extension Descriptor {
    enum Transfer {
        case bytes(Int)
        /// The peer has ended its stream (reading only).
        case end
        case wouldBlock
        case failed(Int32)
    }

    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Transfer {
        while true {
            let count = unsafe recv(raw, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .end }
            if errno != EINTR { return Self.outcome(errno) }
        }
    }

    /// Writes bytes with MSG_NOSIGNAL, so that a closed connection returns EPIPE instead of raising SIGPIPE.
    func send(_ bytes: UnsafeRawBufferPointer) -> Transfer {
        while true {
            let count = unsafe Glibc.send(raw, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return .bytes(count) }
            if errno != EINTR { return Self.outcome(errno) }
        }
    }

    private static func outcome(_ code: Int32) -> Transfer {
        code == EAGAIN || code == EWOULDBLOCK ? .wouldBlock : .failed(code)
    }
}

internal import Glibc
internal import TLS

extension SecureChannel {
    /// A channel's output. It encrypts plaintext, and tracks how much of it the kernel has accepted.
    struct Output: ~Copyable {
        private let limit: Int
        private(set) var sentBytes: Int64 = 0
        /// The number of ciphertext bytes not yet written to the kernel.
        private(set) var pending = 0

        /// The number of plaintext bytes whose records the kernel has accepted completely.
        private(set) var writtenBytes: Int64 = 0
        /// The total number of ciphertext bytes written.
        private var ciphertextWritten: Int64 = 0
        /// One entry for each TLS record that is not completely written: the positions at which its plaintext and its
        /// ciphertext end.
        private var marks: [(plaintextEnd: Int64, ciphertextEnd: Int64)] = []

        init(limit: Int) {
            precondition(limit >= 2 * recordLimit, "a channel's output limit must be at least 32 KiB")
            self.limit = limit
        }

        var room: Int { max(0, limit - pending) }

        /// Encrypts the plaintext of one TLS record.
        mutating func encrypt(_ plaintext: UnsafeRawBufferPointer, _ session: Session) throws(TLSError) {
            sentBytes += Int64(plaintext.count)
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

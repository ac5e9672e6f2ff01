/// Which plaintext the kernel has: after each encryption the ends of plaintext and ciphertext so far are noted, and a
/// plaintext byte counts as written when the last ciphertext byte of its record is.
struct WrittenMarks {
    private struct Mark {
        var plaintextEnd: Int64
        var ciphertextEnd: Int64
    }

    /// Marks not reached yet, from `first` on; the storage is used again when all are reached.
    private var marks: [Mark] = []
    private var first = 0

    /// Ciphertext the kernel took, in all.
    private(set) var ciphertextWritten: Int64 = 0
    /// Plaintext of which the kernel has every record.
    private(set) var plaintextWritten: Int64 = 0

    /// All plaintext up to `plaintextEnd` is encrypted; `pending` bytes of ciphertext were not written yet.
    mutating func encrypted(upTo plaintextEnd: Int64, pending: Int) {
        marks.append(Mark(plaintextEnd: plaintextEnd, ciphertextEnd: ciphertextWritten + Int64(pending)))
    }

    mutating func wrote(_ count: Int) {
        ciphertextWritten += Int64(count)
        while first < marks.count, marks[first].ciphertextEnd <= ciphertextWritten {
            plaintextWritten = marks[first].plaintextEnd
            first += 1
        }
        if first == marks.count {
            marks.removeAll(keepingCapacity: true)
            first = 0
        } else if first >= 64 {
            marks.removeFirst(first)
            first = 0
        }
    }
}

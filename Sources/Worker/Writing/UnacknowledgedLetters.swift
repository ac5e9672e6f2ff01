/// Dead letters that are not acknowledged, by what each takes in memory. Decides only; no clock, no I/O.
struct UnacknowledgedLetters {
    /// In bytes, by their tags.
    private var sizes: [UInt64: Int] = [:]
    private var bytes = 0

    /// Above this many bytes a partition whose next record is a dead letter waits.
    static let limit = 8 << 20

    /// Bytes that the next one may have. Where none is under way, one of any size.
    var room: Int { bytes == 0 ? .max : max(0, Self.limit - bytes) }

    mutating func add(_ tag: UInt64, bytes size: Int) {
        sizes[tag] = size
        bytes += size
    }

    mutating func acknowledged(_ tag: UInt64) {
        if let size = sizes.removeValue(forKey: tag) { bytes -= size }
    }
}

/// Bytes on their way, each due at its time; at most some 16 MB.
struct DelayedBytes {
    private var chunks: [(dueNs: Int64, bytes: [UInt8])] = []
    private var first = 0
    /// Of the first chunk, passed on already.
    private var passed = 0
    private var waiting = 0
    private var hasEnded = false
    /// The end itself was passed on.
    private(set) var isDone = false
    /// The target takes no more for now.
    private(set) var isBlocked = false

    private static let limit = 16 << 20

    var takes: Bool { !hasEnded && waiting < Self.limit }

    /// `.max`: nothing, or not before the target takes more.
    var nextDueNs: Int64 { first < chunks.count && !isBlocked ? chunks[first].dueNs : .max }

    /// No bytes are the end.
    mutating func append(_ bytes: UnsafeRawBufferPointer, dueNs: Int64) {
        if bytes.isEmpty { hasEnded = true }
        chunks.append((dueNs, Array(bytes)))
        waiting += bytes.count
    }

    mutating func passOn(nowNs: Int64, _ send: (UnsafeRawBufferPointer) -> Int) {
        isBlocked = false
        while first < chunks.count, chunks[first].dueNs <= nowNs, !isBlocked {
            let left = chunks[first].bytes.count - passed
            let sent =
                left == 0
                ? 0 : chunks[first].bytes.withUnsafeBytes { send(UnsafeRawBufferPointer(rebasing: $0[passed...])) }
            waiting -= sent
            passed += sent
            if sent < left {
                isBlocked = true
            } else {
                passed = 0
                first += 1
            }
        }
        if first > 256 || first == chunks.count {
            chunks.removeFirst(first)
            first = 0
        }
    }

    /// Whether the end's time has come, once.
    mutating func takeEnd() -> Bool {
        guard hasEnded, !isDone, first == chunks.count else { return false }
        isDone = true
        return true
    }
}

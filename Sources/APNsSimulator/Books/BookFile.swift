import Glibc
import PushRecords
import Synchronization

/// The books' file: every request that was noted, in order, so that a simulator that is started again has its books.
///
/// It is memory that the file backs: what was written survives the process however it ends (kill -9), not the machine.
/// A head (a word, the bytes used), then an entry for each request: what became of it, its reason, the length of its
/// token, `apns-id`, the token's bytes. Some 50 bytes a request; the room is reserved on the disk in steps. One thread
/// at a time.
final class BookFile {
    struct Entry {
        var outcome: RequestOutcome
        var id: NotificationUUID
        /// Lent until the next call.
        var token: UnsafeRawBufferPointer
    }

    private static let word: UInt64 = 0x4150_4E53_424F_4F4B
    private static let headSize = 64
    private static let entryHead = 20
    private static let step = 16 << 20

    let path: String
    private let descriptor: Int32
    private var memory: UnsafeMutableRawPointer
    private var capacity: Int
    private var used: Int

    /// Opens it, or makes it; nobody else may have it open.
    ///
    /// - Throws: one line that names the file.
    init(path: String) throws(SimulatorError) {
        self.path = path
        // Device tokens are nobody else's business.
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw BookFile.failure("cannot open the book \(path)") }
        memory = UnsafeMutableRawPointer(bitPattern: 1)!
        capacity = 0
        used = Self.headSize
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw SimulatorError("the book \(path) is in use by another simulator: name another file")
        }
        let size = Int(lseek(descriptor, 0, SEEK_END))
        var word: UInt64 = 0
        // Looked at before anything is written.
        guard size == 0 || size >= Self.headSize && pread(descriptor, &word, 8, 0) == 8 && word == Self.word else {
            throw Self.foreign(path)
        }
        if size == 0 {
            var head = [Self.word, UInt64(Self.headSize), 0, 0, 0, 0, 0, 0]
            guard pwrite(descriptor, &head, Self.headSize, 0) == Self.headSize else {
                throw Self.failure("cannot write the book \(path)")
            }
        }
        guard map(max(size, Self.step)) else { throw Self.failure("cannot map the book \(path)") }
        used = memory.load(fromByteOffset: 8, as: Int.self)
        guard used >= Self.headSize, used <= capacity else { throw Self.foreign(path) }
    }

    deinit {
        if capacity > 0 { munmap(memory, capacity) }
        if descriptor >= 0 { close(descriptor) }
    }

    /// Every entry from the first on.
    ///
    /// - Throws: one line, where an entry is none.
    func forEach(_ body: (Entry) -> Void) throws(SimulatorError) {
        var at = Self.headSize
        while at < used {
            let count = Int(memory.load(fromByteOffset: at + 2, as: UInt8.self))
            let reason = ReasonCode(rawValue: memory.load(fromByteOffset: at + 1, as: UInt8.self))
            let end = at + Self.entryHead + count
            guard end <= used, let reason,
                let outcome = RequestOutcome(code: memory.load(fromByteOffset: at, as: UInt8.self), reason: reason)
            else { throw Self.foreign(path) }
            body(
                Entry(
                    outcome: outcome,
                    id: NotificationUUID(
                        high: memory.loadUnaligned(fromByteOffset: at + 4, as: UInt64.self),
                        low: memory.loadUnaligned(fromByteOffset: at + 12, as: UInt64.self)),
                    token: UnsafeRawBufferPointer(start: memory + at + Self.entryHead, count: count)))
            at = end
        }
    }

    /// Notes a request; false: the disk is full. A token has at most 100 bytes.
    func append(_ entry: Entry) -> Bool {
        let size = Self.entryHead + entry.token.count
        if used + size > capacity, !map(capacity + Self.step) { return false }
        let (code, reason) = entry.outcome.code
        memory.storeBytes(of: code, toByteOffset: used, as: UInt8.self)
        memory.storeBytes(of: reason.rawValue, toByteOffset: used + 1, as: UInt8.self)
        memory.storeBytes(of: UInt8(entry.token.count), toByteOffset: used + 2, as: UInt8.self)
        memory.storeBytes(of: entry.id.high, toByteOffset: used + 4, as: UInt64.self)
        memory.storeBytes(of: entry.id.low, toByteOffset: used + 12, as: UInt64.self)
        if let bytes = entry.token.baseAddress {
            (memory + used + Self.entryHead).copyMemory(from: bytes, byteCount: entry.token.count)
        }
        used += size
        noteUsed()
        return true
    }

    func reset() {
        used = Self.headSize
        noteUsed()
    }

    /// Last: whoever reads the file after a kill finds whole entries.
    private func noteUsed() {
        atomicMemoryFence(ordering: .releasing)
        memory.storeBytes(of: used, toByteOffset: 8, as: Int.self)
    }

    /// Reserves the room on the disk first: a store to a page that has none would end the process.
    private func map(_ larger: Int) -> Bool {
        let code = posix_fallocate(descriptor, 0, larger)
        if code != 0 { errno = code }
        guard code == 0, let mapped = mmap(nil, larger, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0),
            mapped != MAP_FAILED
        else { return false }
        if capacity > 0 { munmap(memory, capacity) }
        memory = mapped
        capacity = larger
        return true
    }

    private static func foreign(_ path: String) -> SimulatorError {
        SimulatorError(
            "the book \(path) is not one that a simulator wrote, or it is damaged: delete it, or name another file")
    }

    private static func failure(_ what: String) -> SimulatorError {
        SimulatorError("\(what): \(String(cString: strerror(errno)))")
    }
}

/// What became of a request, as the books note it.
enum RequestOutcome: Equatable {
    /// Said so to the client, by the gateway in that it stood behind what was refused: it is in no book.
    case notProcessed
    case accepted
    case refused(ReasonCode)
    case unanswered

    /// As the file has it.
    fileprivate var code: (UInt8, ReasonCode) {
        switch self {
        case .notProcessed: (0, .none)
        case .accepted: (1, .none)
        case .refused(let reason): (2, reason)
        case .unanswered: (3, .none)
        }
    }

    fileprivate init?(code: UInt8, reason: ReasonCode) {
        switch code {
        case 0: self = .notProcessed
        case 1: self = .accepted
        case 2: self = .refused(reason)
        case 3: self = .unanswered
        default: return nil
        }
    }
}
